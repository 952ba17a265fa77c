"""Secrets with a format of their own: tokens that identify their issuer.

The formats are the ones that gitleaks keeps and issuers publish, rewritten for our scans. Each length is the shortest
that the issuer ever used, or less: a token that was truncated on its way here is still a secret.
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.values import BASE64_OF_TEXT, DOUBT, AnchoredRule

_WORD: Final = r"[0-9A-Za-z_-]"
_ALNUM: Final = "[0-9A-Za-z]"
# Digests of files in pip's RECORD, of 43 characters: up to ten stand before a sign that 32 letters and digits follow.
_NO_DIGEST: Final = "".join(rf"(?<![sS][hH][aA]256=[\w-]{{{before}}}[_-])" for before in range(2, 11))
_OF_THREE_CLASSES: Final = (
    r"(?=[0-9a-z]{0,31}+[A-Z])(?=[0-9A-Z]{0,31}+[a-z])(?=[A-Za-z]{0,31}+\d)"
    rf"(?![0-9ACHLMQSTVZachlmqstvz]{{32}}){_NO_DIGEST}{DOUBT}{_ALNUM}{{32}}"  # a path of SVG
)
_BASE58: Final = "[1-9A-HJ-NP-Za-km-z]"

_HEX: Final = "[0-9a-fA-F]"
# `rnd_`, `live_` and the like also begin names of functions. Those rarely contain a digit; tokens nearly always do. Of
# 24 random letters and digits 1.5 % have none, and are told by their changes of case: nine of ten of them are.
_DIGIT: Final = rf"(?:(?=[A-Za-z_-]{{0,60}}+\d)|{DOUBT})"

_UUID: Final = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}"

# These may be shorter than a run that is searched for prefixes, see `SHORT`.
_NEON: Final = f"{_DIGIT}{_ALNUM}{{12}}"
_DJANGO: Final = r"[\w!@%$=+]"  # its other signs end a run
_CANVA: Final = f"{_ALNUM}{{11}}(?![0-9A-Za-z])"
_SLACK: Final = r"[\w.%+/-]{10}"  # of a browser's cookie, which is base64
_STRIPE: Final = f"(?:(?=[A-Za-z]{{0,30}}[0-9])|(?={_ALNUM}{{20}}){DOUBT}){_ALNUM}{{10}}"
_LARK_ID: Final = "[0-9a-f]{14,16}(?![0-9A-Za-z])"
_JWT: Final = r"(?<![\w-]eyJ)[\w-]{12,2000}+\.\.?[\w-]{2}"

# Rule name, pattern after the prefix, prefixes (each at the start of a word). A table and not one pattern each: the
# prefixes compile into one trie, where Python's `re` would try some 310 patterns one after the other.
PREFIXED: Final = (
    # version control, registries of packages, continuous integration
    ("github-token", f"{_ALNUM}{{30}}", "ghp_ gho_ ghu_ ghs_ ghr_"),
    ("github-token", f"{_WORD}{{30}}", "github_pat_"),
    (
        "gitlab-token",
        f"{_WORD}{{18}}",
        "glpat- gldt- glffct- glft- glimt- glagent- gloas- glptt- glrt- glrtr- glsoat- glcbt- glwt-",
    ),
    ("neon-password", _NEON, "npg_"),
    ("npm-token", f"{_ALNUM}{{30}}", "npm_"),
    ("pypi-token", f"AgE{_WORD}{{40}}", "pypi-"),
    ("rubygems-token", f"{_HEX}{{40}}", "rubygems_"),
    ("packagist-token", f"{_HEX}{{40}}", "packagist_uut_ packagist_ort_ packagist_org_ packagist_ack_ packagist_act_"),
    ("clojars-token", f"{_ALNUM}{{50}}", "CLOJARS_ clojars_"),
    ("docker-token", f"{_WORD}{{20}}", "dckr_pat_ dckr_oat_"),
    ("circleci-token", f"{_WORD}{{20}}", "CCIPAT_ CCIPRJ_"),
    ("buildkite-token", f"{_ALNUM}{{30}}", "bkua_ bkaj_ bkct_"),
    ("harness-token", r"[\w-]{22}\.[0-9A-Za-z]{20}", "pat. sat."),
    ("sourcegraph-token", r"(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40}", "sgp_ slk_"),
    ("octopus-deploy-key", "[A-Z0-9]{25}", "API-"),
    ("pulumi-token", f"{_HEX}{{36}}", "pul-"),
    ("readme-token", "[a-z0-9]{60}", "rdme_"),
    ("prefect-token", f"{_ALNUM}{{32}}", "pnu_ pnb_"),
    ("sentry-token", r"[\w+/-]{24}", "sntryu_ sntrys_ sntrya_ sntryi_"),
    ("infracost-token", f"{_ALNUM}{{30}}", "ico-"),
    ("snyk-token", r"[\w.-]{20}", "snyk_uat. snyk_sat."),
    ("sonar-token", f"{_HEX}{{36}}", "squ_ sqp_ sqa_"),
    ("openshift-token", f"{_WORD}{{40}}", "sha256~"),
    ("scalingo-token", f"{_WORD}{{40}}", "tk-us-"),
    ("contentful-token", f"{_WORD}{{40}}", "CFPAT-"),
    ("pganalyze-key", f"{_ALNUM}{{30}}", "pgar_"),
    ("spinnaker-key", f"{_ALNUM}{{24}}", "spu- spg-"),
    ("splunk-key", f"{_ALNUM}{{24}}", "spa- spi-"),
    ("polar-token", f"{_WORD}{{30}}", "polar_oat_ polar_pat_ polar_whs_ polar_at_"),
    ("openvsx-token", _UUID, "ovsxat_"),
    ("endor-key", _WORD + "{16}", "endr+"),
    ("aikido-token", f"{_ALNUM}{{20}}", "AIK_CI_ AIK_CLIENT_"),
    ("val-town-token", f"{_DIGIT}{_ALNUM}{{20}}", "vtwn_"),
    ("bitrise-token", f"{_HEX}{{40}}", "bitat_ bitpat_"),
    ("k3s-token", f"{_HEX}{{40}}", "K10"),
    ("github-token", f"{_HEX}{{40}}(?![0-9a-fA-F])", "v1."),
    # clouds, hosts, data
    ("aws-bedrock-key", r"[\w+/=-]{40}", "bedrock-api-key-"),
    ("cockroach-key", f"{_WORD}{{40}}", "CCDB1_"),
    ("aiven-token", r"[\w+/-]{16}", "AVNU_ AVNS_"),
    ("elastic-key", r"[\w+/=-]{40}", "essu_ essl_"),
    ("mongodb-token", f"{_WORD}{{36}}", "mdb_sa_sk_"),
    ("google-oauth-token", f"{_WORD}{{24}}", "ya29. GOCSPX- 1//"),
    ("digitalocean-token", f"{_HEX}{{50}}", "dop_v1_ doo_v1_ dor_v1_"),
    ("cloudflare-key", f"{_HEX}{{24}}-{_HEX}{{40}}", "v1.0-"),
    ("heroku-key", f"{_WORD}{{40}}", "HRKU-"),
    ("fly-token", r"[\w+/-]{40}", "fo1_ fm1a_ fm1r_ fm2_"),
    (
        "host-token",
        f"{_DIGIT}{_WORD}{{24}}",
        "nfp_ nfc_ rnd_ sbp_ sb_secret_ vcp_ vci_ vca_ vck_ vercel_ ddp_ ddw_ cfut_ cfat_ apify_api_ npg_",
    ),
    ("host-token", "[0-9a-z]{40}", "napi_"),
    ("swarm-token", "[0-9a-z]{50}", "SWMTKN-1-"),
    ("swarm-token", r"[\w+/]{30}", "SWMKEY-1-"),
    (
        "ngrok-token",
        rf"(?=[0-9A-Za-z]{{24}})(?=[0-9A-Za-z]{{0,26}}[A-Z])(?=[0-9A-Za-z]{{0,26}}[0-9])[0-9A-Za-z]{{24,26}}_{_ALNUM}{{20,24}}(?![\\w-])",
        "1 2 3",
    ),
    ("netlify-token", f"{_HEX}{{24}}", "api.netlify.com/build_hooks/"),
    ("upcloud-token", f"{_ALNUM}{{20}}", "ucat_"),
    ("upbound-token", f"{_DIGIT}{_WORD}{{30}}", "aivenv1"),
    ("datastax-token", r"\w{20}", "AstraCS:"),
    ("contentstack-token", f"{_HEX}{{32}}(?![0-9a-fA-F])", "cs"),
    ("alibaba-key", f"{_DIGIT}{_ALNUM}{{16}}", "STS."),
    ("google-storage-key", "(?=[A-Z]{0,19}[0-9])[0-9A-Z]{20}", "GOOG"),
    ("scaleway-key", "(?=[A-Z]{0,16}[0-9])[0-9A-Z]{17}(?![0-9A-Za-z])", "SCW"),
    ("exoscale-key", "[0-9a-z]{22,26}(?![0-9A-Za-z])", "EXO"),
    ("kubernetes-token", r"[\w+/=-]{60}", "k8s-aws-v1."),
    ("planetscale-token", r"[\w=.-]{30}", "pscale_tkn_ pscale_oauth_ pscale_pw_"),
    ("vault-token", f"{_WORD}{{80}}", "hvs. hvb. hvr."),
    ("vault-token", f"{DOUBT}{_WORD}{{24}}", "hvs. hvb. hvr."),  # of a server without replicas
    ("aws-session-token", r"[\w+/]{60}", "IQoJb3JpZ2lu FwoGZXIvYXdz"),
    ("vault-token", rf"(?:(?=[A-Za-z]{{0,23}}+\d)|{DOUBT}){_ALNUM}{{24}}(?![\w.])", "s."),
    ("doppler-token", f"{_ALNUM}{{36}}", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit."),
    ("doppler-token", rf"[\w-]{{2,35}}\.{_ALNUM}{{36}}", "dp.st."),
    ("1password-key", "[A-Z0-9]{6}-[A-Z0-9]{5,6}-?[A-Z0-9]{5}", "A3-"),
    ("1password-token", r"eyJ[\w+/-]{60}", "ops_"),
    ("django-key", _DJANGO, "django-insecure-"),
    ("age-key", "1[A-Z0-9]{50}", "AGE-SECRET-KEY-"),
    ("dynatrace-token", r"(?:[0-9A-Z]{8}|[0-9A-Za-z]{24})\.[0-9A-Za-z]{50}", "dt0c01. dt0s01. dt0s02. dt0s08. dt0s16."),
    ("new-relic-key", r"[\w-]{18}", "NRAK- NRII- NRJS- NRIQ- NRRA- NRAA-"),
    ("grafana-token", r"[\w+/-]{30}", "glc_ glsa_"),
    ("honeycomb-key", f"{_ALNUM}{{40}}", "hcaik_ hcalk_"),
    ("postman-key", f"{_HEX}{{24}}-{_HEX}{{30}}", "PMAK-"),
    ("postman-key", "[0-9A-Z]{26}", "PMAT-"),
    ("configcat-key", r"[\w-]{20,22}/[\w-]{20}", "configcat-sdk-1/ configcat-proxy/"),
    ("devcycle-key", f"{_DIGIT}{_WORD}{{30}}", "dvc_client_ dvc_mobile_ dvc_server_"),
    ("voiceflow-key", rf"{_HEX}{{24}}\.{_ALNUM}{{16}}", "VF. VF.DM. VF.WS."),
    ("scrapfly-key", f"{_HEX}{{32}}", "scp-live- scp-test-"),
    (
        "photoroom-key",
        rf"(?=[0-9a-z_-]{{0,40}}[A-Z])(?=[A-Z0-9_-]{{0,40}}[a-z]){_DIGIT}{_WORD}{{40}}(?![\w-])",
        "sandbox_",
    ),
    ("pangea-token", "(?=[a-z]{0,31}[0-9])[0-9a-z]{32}(?![0-9a-z_])", "pts_ pcs_"),
    ("pushbullet-key", rf"{_DIGIT}(?=[0-9a-z]{{0,31}}[A-Z]){_ALNUM}{{32}}(?![0-9A-Za-z])", "o."),
    (
        "onfido-key",
        r"[\w-]{11}\.[\w-]{20}",
        "api_live. api_live_us. api_live_ca. api_sandbox. api_sandbox_us. api_sandbox_ca.",
    ),
    ("persona-key", _UUID, "persona_production_ persona_sandbox_"),
    ("infisical-token", rf"{_HEX}{{24}}\.{_HEX}{{32}}\.", "st."),
    ("mailersend-token", f"{_HEX}{{40}}", "mlsn."),
    ("gcp-gemini-key", r"[\w-]{30}", "AQ.Ab"),
    ("google-oauth-code", r"[\w-]{40}", "4/0A"),
    ("canada-notify-key", rf"[\w-]{{1,40}}-{_UUID}", "gcntfy-"),
    ("canva-secret", r"[\w-]{36}", "cnvca"),
    ("cartesia-key", f"{_ALNUM}{{16}}", "sk_car_"),
    ("devin-token", "[0-9a-z]{40}", "cog_"),
    ("databento-key", f"{_ALNUM}{{29}}(?![0-9A-Za-z])", "db-"),
    ("lichess-token", f"{_DIGIT}{_ALNUM}{{18}}", "lip_"),
    ("mem0-key", f"{_ALNUM}{{36}}", "m0-"),
    ("proof-key", f"{_DIGIT}{_ALNUM}{{22}}", "prf_"),
    ("unkey-key", f"{_DIGIT}{_ALNUM}{{20}}", "unkey_"),
    ("asaas-token", r"[\w:/+=-]{30}", "$aact_"),
    ("lark-token", "(?=[a-z]{0,20}[0-9])[0-9a-z]{38,42}(?![0-9A-Za-z-])", "t-"),
    ("nostr-key", "[02-9ac-hj-np-z]{58}", "nsec1"),
    ("application-key", "[0-9A-Za-z+/]{43}=(?!=)", "base64:"),
    ("zoho-token", rf"{_HEX}{{32}}\.{_HEX}{{32}}", "1000. 1001."),
    ("tailscale-key", f"{_ALNUM}{{6,24}}-{_ALNUM}{{16}}", "tskey-auth- tskey-api- tskey-client- tskey-scim-"),
    ("launchdarkly-key", _UUID, "sdk- mob- api-"),
    ("pubnub-key", _UUID, "sub-c- pub-c- rh-api-"),
    ("pubnub-key", r"[\w+/=-]{40}", "sec-c-"),
    ("trufflehog-key", f"{_HEX}{{16}}", "thog-key- thog-secret-"),
    ("privy-key", f"{_HEX}{{32}}", "pri_"),
    ("paystack-key", f"{_ALNUM}{{24}}", "sk_pr_"),
    ("posthog-key", f"{_ALNUM}{{36}}", "phx_ phs_"),
    ("settlemint-token", f"{_ALNUM}{{16}}", "sm_aat_ sm_pat_ sm_sat_"),
    ("defined-networking-token", r"[\w=-]{40}", "dnkey-"),
    ("authress-key", r"[0-9a-z]{5,30}\.[0-9a-z]{4,6}\.acc[_-][0-9a-z-]{10}", "sc_ ext_ scauth_ authress_"),
    ("yandex-token", r"[\w-]{20,300}={0,2}\.[\w-]{80}", "t1."),
    # payment, shipping, shops
    ("stripe-key", _STRIPE, "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_"),
    ("webhook-secret", r"[\w+/-]{24}", "whsec_"),
    ("mollie-key", f"{_DIGIT}{_ALNUM}{{30}}", "live_"),
    ("mollie-key", rf"(?=[a-z\d]{{0,60}}+[A-Z]){_DIGIT}{_ALNUM}{{30}}", "test_"),
    ("checkout-key", _UUID, "sk_ sk_test_ sk_sbox_"),
    ("checkout-key", "[0-9a-z]{26}", "sk_sbox_ pk_sbox_"),
    ("square-token", f"{_WORD}{{22}}", "sq0atp- sq0csp- sq0idp- sq0ige-"),
    ("shopify-token", f"{_HEX}{{32}}", "shpat_ shpca_ shppa_ shpss_ shpua_"),
    ("shippo-token", f"{_HEX}{{36}}", "shippo_live_ shippo_test_"),
    ("duffel-token", r"[\w=-]{36}", "duffel_live_ duffel_test_"),
    ("flutterwave-key", "[0-9A-Za-z-]{12}", "FLWSECK_TEST- FLWSECK- FLWPUBK_TEST- FLWSECK_LIVE-"),
    ("razorpay-key", f"{_ALNUM}{{14}}", "rzp_live_ rzp_test_"),
    ("lob-key", f"(?:pub_)?{_HEX}{{30}}", "live_ test_"),
    ("gocardless-token", f"{_DIGIT}{_WORD}{{38}}", "live_"),
    ("plaid-token", _UUID, "access-sandbox- access-development- access-production-"),
    ("braintree-token", r"[0-9a-z]{16}\$[0-9a-f]{32}", "access_token$production$ access_token$sandbox$"),
    ("amazon-mws-token", _UUID, "amzn.mws."),
    # chat, mail, work
    ("slack-token", _SLACK, "xoxc- xoxd- xoxe- xoxo- xapp-1- xapp-2- xapp-3- xapp-4- xoxe."),
    ("discord-token", f"{_WORD}{{60}}", "mfa."),
    ("discord-token", r"[\w-]{23,25}\.[\w-]{6}\.[\w-]{27}", "M N O"),
    ("airtable-token", r"[0-9A-Za-z]{14}\.[0-9a-f]{40}", "pat"),
    ("salesforce-token", r"[0-9A-Za-z]{12,15}![\w.]{50}", "00D"),
    ("sendgrid-key", r"[\w-]{16,24}\.[\w-]{30}", "SG."),
    ("sendgrid-key", r"[\w=.-]{60}", "SG."),
    ("brevo-key", f"{_HEX}{{60}}", "xkeysib- xsmtpsib-"),
    ("mailgun-key", f"{_HEX}{{32}}", "key- pubkey-"),
    ("resend-key", f"{_ALNUM}{{8}}_{_ALNUM}{{16}}", "re_"),
    ("telnyx-key", f"[0-9A-Z]{{32}}_{_ALNUM}{{18}}", "KEY"),
    ("clickup-token", r"\d{6,10}_[0-9A-Z]{30}", "pk_"),
    ("klaviyo-key", rf"(?:{_ALNUM}{{6}}_)?[0-9a-f]{{34}}(?![0-9A-Za-z])", "pk_"),
    ("work-token", "(?=[a-z]{0,25}[0-9])[0-9a-z]{26,29}(?![0-9A-Za-z_-])", "tk_ ajkey_"),  # of ntfy and Arcjet
    ("onesignal-key", "[0-9a-z]{60}", "os_v2_app_ os_v2_org_"),
    ("adafruit-key", f"{_ALNUM}{{28}}", "aio_"),
    (
        "work-token",
        f"{_DIGIT}{_WORD}{{30}}",
        "waka_ lmb_ lma_ mka_ pina_ rootly_ samsara_api_ tss_ zpka_ sec-c- cal_live_ y0_ y1_ y2_ y3_",
    ),
    ("woocommerce-key", f"{_HEX}{{40}}", "ck_ cs_"),
    ("ubidots-token", f"{_ALNUM}{{30}}", "BBFF- BBUS-"),
    ("midtrans-key", f"{_WORD}{{24}}", "Mid-server-"),
    ("linear-key", f"{_ALNUM}{{32}}", "lin_api_ lin_oauth_"),
    ("notion-token", f"{_ALNUM}{{40}}", "ntn_ secret_"),
    ("figma-token", f"{_WORD}{{36}}", "figd_ figu_ figh_ figoh_ figur_"),
    ("frameio-token", r"[\w=-]{50}", "fio-u-"),
    ("typeform-token", r"[\w.=-]{40}", "tfp_"),
    ("hubspot-token", _UUID, "pat-na1- pat-eu1- pat-na2- pat-eu2- pat-ap1-"),
    ("dropbox-token", r"[\w=-]{60}", "sl. sl.u."),
    ("mapbox-token", r"[0-9A-Za-z]{50,100}\.[\w-]{20}", "pk. sk. tk."),
    ("twitch-token", r"(?=[a-z]{0,29}\d)[0-9a-z]{30}(?![0-9A-Za-z])", "oauth:"),
    ("riot-key", _UUID, "RGAPI-"),
    ("ory-token", r"[\w.-]{40}", "ory_at_ ory_rt_ ory_ac_ ory_pat_"),
    ("stytch-secret", r"[\w-]{32}", "secret-live- secret-test-"),
    ("adobe-secret", f"{_WORD}{{30}}", "p8e-"),
    ("intra42-secret", f"{_HEX}{{50}}", "s-s4t2ud- s-s4t2af-"),
    # models and what agents use
    ("anthropic-key", f"{_WORD}{{20}}", "sk-ant-"),
    ("openai-key", f"{_WORD}{{20}}", "sk-proj- sk-svcacct- sk-admin- sk-None-"),
    ("model-provider-key", f"{_ALNUM}{{32}}", "sk- gsk_ pplx- csk- tvly-dev- tvly- r8_ hf_ api_org_ fc-"),
    ("model-provider-key", f"{_WORD}{{30}}", "xai- nvapi- pcsk_ tgp_v1_ sk-or-v1- lsv2_pt_ lsv2_sk_ sk-lf-"),
    ("model-provider-key", f"{_WORD}{{40}}", "jina_"),
    ("model-provider-key", f"{DOUBT}{_WORD}{{40}}", "pa-"),  # no anchor of a page: `#pa-1-separate-…`
    ("model-provider-key", f"{_HEX}{{40}}", "sk_ crsr_"),
    ("model-provider-key", "[0-9A-Z]{30}[0-9A-Za-z]{10}", "rpa_"),
    ("model-provider-key", f"{_ALNUM}{{22}}", "fw_ key_ sess- e2b_ mem0- exa_"),
    ("model-provider-key", rf"{_DIGIT}{_WORD}{{22}}", "bb_live_"),
    ("axiom-token", _UUID, "xaat- xapt-"),
    ("convex-key", r"[a-z]{2,20}-[a-z]{2,20}-\d{1,4}\|[\w+/=]{32}", "prod: dev: preview:"),
    # without a sign after the prefix
    ("sanity-token", "(?:[0-9A-Za-z]{178}|[0-9A-Za-z]{80})(?![0-9A-Za-z])", "sk"),
    ("pagerduty-key", rf"(?:(?=[A-Za-z_+-]{{0,17}}[0-9])|{DOUBT})[\w+-]{{18}}(?![\w+/=-])", "u+"),
    ("bitcoin-key", "[0-9A-Za-z]{100}", "xprv yprv zprv tprv"),
    # Keys for import into wallets: 51 or 52 characters of base58, without 0, O, I and l.
    ("bitcoin-key", rf"(?=[A-Za-z]{{0,50}}[0-9]){_BASE58}{{51}}(?![\w+/=-])", "K L"),
    ("bitcoin-key", rf"[HJK]{_BASE58}{{49}}(?![\w+/=-])", "5"),
    ("json-web-token", _JWT, "eyJ"),
    ("json-web-token", r"(?<![\w-]e...)[\w-]{12,2000}+\.e[\w-]{16,2000}+\.[\w-]{20}", "ewog eyAi"),
)

# Rule name, pattern, and what tokens have in their middle or anywhere in a word: what precedes is checked by a
# lookbehind, since starting at the token's first character, `re` would stop at every word.
ANYWHERE: Final = (
    ("terraform-token", f"{_WORD}{{50}}", ".atlasv1."),
    ("azure-client-secret", r"(?<=\dQ~)[\w~.-]{28}", "~"),
    ("maxmind-key", "(?<=_[0-9A-Za-z]{29}_mmk)", "_mmk"),
    ("mailchimp-key", r"\d(?<=[0-9a-f]{32}-us\d)", "-us"),
    ("mailgun-key", "(?<=[0-9a-h]{32}-)[0-9a-h]{8}-[0-9a-h]{8}(?![0-9a-h-])", "-"),
    ("telegram-token", r"(?<=\d{8}:A)[\w-]{33}", ":A"),
    (
        "asana-token",
        r"[0-9a-f]{4}(?:(?<=\d/\d{15}:.{4})|(?<=\d/\d{16}:.{4}))[0-9a-f]{28}(?![0-9a-f])",
        ":",
    ),
    ("password-hash", r"\$?(?:rounds=\d{1,9}\$)?[\w./]{1,22}\$\$?[\w./]{20}", "$apr1$ $1$ $5$ $6$ $y$ $7$"),
    ("password-hash", r"[_-]?:?sha\d{1,3}[$:]\d{1,8}\$[\w./+-]{1,64}\$[\w./+=]{20}", "pbkdf2"),
    ("password-hash", r"\$?\d\d\$\$?[\w./]{50}", "$2a$ $2b$ $2x$ $2y$"),  # compose doubles a `$`
    ("fal-key", rf"(?<={_UUID}-[0-9a-f]{{4}}-[0-9a-f]{{12}}:)[0-9a-f]{{32}}(?![0-9a-f])", ":"),
    ("firebase-key", r"[\w-]{60}", ":APA91b"),
    ("facebook-token", r"(?<=\d{15}\|)[\w-]{27}", "|"),
    ("facebook-token", r"(?<=\d{15}%)(?:7C)?[\w-]{27}", "%"),
    # Alone in its line, as `kubeadm token create` prints it; elsewhere a name says what it is.
    ("kubeadm-token", rf"(?<=^[0-9a-z]{{6}}\.)(?=[a-z]{{0,15}}[0-9]){DOUBT}[0-9a-z]{{16}}(?=[ \t\r]{{0,4}}$)", "."),
    ("azure-devops-token", "(?<=[0-9A-Za-z]{76}AZDO)", "AZDO"),
    ("aws-access-key", "[0-9A-Z]{16}", "AKIA"),
    ("aws-access-key", "(?<![0-9A-Za-z]A...)[0-9A-Z]{16}(?![0-9A-Za-z])", "ASIA ABIA ACCA AIDA AROA"),
    ("aws-access-key", "(?<![0-9A-Za-z]A..)[A-Z0-9][0-9A-Z]{16}(?![0-9A-Za-z])", "A3T"),
    ("aws-bedrock-key", "[0-9A-Za-z+/]{60}", "ABSK"),
    ("google-api-key", r"[\w-]{32}", "AIza"),
    ("artifactory-key", "[0-9A-Za-z]{40}", "AKCp"),
    ("atlassian-token", r"3?[\w=-]{24}", "ATATT ATCTT ATBB"),
    ("trello-token", "[0-9a-f]{60}", "ATTA"),
    # Signatures that Microsoft puts inside its keys: functions, search, storage, registries, caches, batch, events.
    ("azure-key", r"(?<=[\w+/-]{42}Az..)[\w+/-]{6}", "AzFu AzSe AzCa"),
    ("azure-key", r"(?<=[\w+/-]{37}\+...)[\w+/=-]{6}", "ASt AEH ARm ABa ACR AIc AIoT"),
    ("new-relic-key", "(?<=[0-9a-fx]{36}NRAL)", "NRAL"),
    ("new-relic-key", "(?<=[0-9a-fx]{36}-NRMA)", "NRMA"),
    ("yandex-key", r"(?<![\w+/-]YC)(?=[A-Za-z_-]{0,40}+\d)[\w-]{38}(?![\w+/=-])", "YC"),
    ("volcengine-key", "[0-9A-Za-z]{40}", "AKLT"),
    ("tencent-key", r"[0-9A-Za-z]{28}", "AKID"),
    ("yandex-key", r"[\w-]{32}", "AQVN"),
    ("twitter-token", r"(?<![\w+/]A{20})(?!\S{0,40}?A{6})(?:[0-9A-Za-z%]{50}|[\w+/=]{50,110}+(?![\w+/=]))", "A" * 20),
    ("square-token", r"(?<![\w+/]EAAA)(?:[\w-]{55}|(?=[A-Za-z_-]{0,20}[0-9])[\w-]{22,55}(?![\w+/=-]))", "EAAA"),
    ("elastic-token", r"[\w+/-]{40}", "AAEAAWVsYXN0aWMv"),
    ("nats-seed", "(?<![0-9A-Za-z]S.)[A-Z2-7]{56}(?![0-9A-Za-z])", "SU SA SO SN SC SX"),
    ("facebook-token", r"(?<![\w+/]EAA)[0-9A-Za-z]{80}", "EAA"),
    ("easypost-key", "[0-9A-Za-z]{50}", "EZAK EZTK"),
    ("gitlab-token", r"[\w-]{18}", "GR1348941"),
    ("alibaba-key", r"(?:(?<![0-9A-Za-z+/]LTAI)|(?<=%[0-9A-F][0-9A-F]LTAI))[0-9A-Za-z]{16}", "LTAI"),
    ("twilio-key", "[0-9a-fA-F]{32}(?![0-9a-fA-F])", "SK"),
    ("twilio-key", "(?<![0-9A-Za-z]AC)[0-9a-f]{32}(?![0-9a-f])", "AC"),
    ("instagram-token", r"[\w-]{60}", "IGQV IGQW IGAA"),
    # base64 of "-----BEGIN " and the start of PRIVATE, RSA, EC P, OPENSSH, ENCRYPT or DSA; certificates do not match.
    ("private-key", "(?:BQUklW|BSU0Eg|BFQyBQ|BPUEVOU1NI|BFTkNSWVBU|BEU0Eg|BQR1AgUFJJ)", "LS0tLS1CRUdJTi"),
    ("private-key", "", "LS0tLSBCRUdJTiBTU0gy UHVUVFktVXNlci1LZXktRmls TFMwdExTMUNSVWRKVGl"),
    # "PRIVATE KEY" in the middle of a file, at any of the three places that base64 has for a byte.
    ("private-key", "", "UFJJVkFURSBLRV BSSVZBVEUgS0VZ QUklWQVRFIEtF"),
    ("json-web-token", "[0-9A-Za-z+/]{50}", "ZXlK"),
    ("openai-key", rf"(?!(?:{BASE64_OF_TEXT}){{4}})[\w-]{{16}}", "T3BlbkFJ"),  # also base64 of "OpenAI"
    ("artifactory-token", f"(?:dGtu|(?!(?:{BASE64_OF_TEXT}){{4}})d)[0-9A-Za-z]{{50}}", "cmVm"),  # also of "refuse"
)

# The same for tokens that hold a long word (`token_runs.LONG_WORD`): of any issuer, after a prefix that no rule knows.
OF_LONG_WORDS: Final = (
    # Random characters of all three classes, not as hashes have.
    (
        "prefixed-token",
        r"(?=[0-9A-Za-z]{32})(?<=[0-9A-Za-z]{2}.)(?<![\w-]{25})(?<!sha\d.)(?<!sha\d\d\d.)(?<!batch_)(?<!file-)(?![0-9A-Za-z]{0,30}(?:ESt|ESa|EE\d|I[cw]))"
        + _OF_THREE_CLASSES,
        "_ -",
    ),
    # The same as the value of a variable whose name says nothing: `SESSION_SIGNING=…`.
    (
        "prefixed-token",
        f"(?<=[A-Z_][A-Z][A-Z]=)(?<!ID=)(?<!SH[AH]=)(?<!SUM=)(?<!IGEST=)(?<!TAG=){_OF_THREE_CLASSES}",
        "=",
    ),
)

# Tokens that may be shorter than a run (`token_runs.TOKEN`), or have signs that end one: found by a fixed text.
SHORT: Final = (
    AnchoredRule("neon-password", "npg_", f"(?<![0-9A-Za-z]npg_){_NEON}"),
    AnchoredRule("django-key", "django-insecure-", _DJANGO),
    AnchoredRule("canva-id", "OC-A", f"(?<![0-9A-Za-z]OC-A){_CANVA}"),
    AnchoredRule("slack-token", "xox", rf"(?<![0-9A-Za-z]xox)(?:[cdeo]-|e\.)(?=[\w.-]{{0,200}}?[0-9A-Z]){_SLACK}"),
    *(
        AnchoredRule("stripe-key", of, f"(?<=[rs]{of})(?<![0-9A-Za-z].{of}){_STRIPE}")
        for of in ("k_live_", "k_test_", "k_prod_")
    ),
    AnchoredRule("lark-id", "cli_a", f"(?<![0-9A-Za-z]cli_a){_LARK_ID}"),
    AnchoredRule("json-web-token", "eyJ", _JWT),
    AnchoredRule("private-key", "TFMwdExTMUNSVWRKVGl", ""),
    AnchoredRule("password-hash", "$argon2", r"(?:id|i|d)\$[\w=,$+/]{30}"),
    AnchoredRule("slack-token", "xapp-", f"(?<![0-9A-Za-z]xapp-)[1-4]-{_SLACK}"),
)

# Recognised by a text with which it begins, in the text as it stands. Case-sensitive, and two headers ask for a digit:
# "bearer of bad news" and "The Bearer of bad news" must stay; at the start of a line it need not have one.
PLAIN: Final = (
    # base64 of JSON: of Elasticsearch's enrolment, of a tunnel of Cloudflare, of a key of Borg. They would stand in
    # `ANYWHERE` if most words had no "e" or "h", at each of which `re` would stop.
    AnchoredRule("json-token", "eyJ", "(?:2ZXIiOi|hIjoi|wYXlsb2FkIjoi)[0-9A-Za-z+/]{40}"),
    AnchoredRule("grafana-token", "eyJ", "rIjoi[0-9A-Za-z+/]{50}"),
    AnchoredRule("borg-key", "hqlhbGdvcml0aG2", "[0-9A-Za-z+/]{40}"),
    AnchoredRule("slack-token", "xox", "[baprs]-"),
    AnchoredRule("tableau-token", "==:", "(?<=[0-9A-Za-z+/]{22}==:)[0-9A-Za-z]{30}"),
    AnchoredRule("okta-token", "SSWS ", r"00[\w-]{38}"),
    AnchoredRule("cargo-token", "cio", r"(?<!\wcio)[0-9A-Za-z]{32}(?!\w)"),
    AnchoredRule("bearer", "Bearer ", "(?<!.Bearer )"),
    AnchoredRule(
        "bearer",
        "Bearer ",
        r"(?<![0-9A-Za-z]Bearer )(?=[\w.~+/=-]{0,40}+)(?=[A-Za-z_.~+/-]{0,60}\d)[\w.~+/=-]{16}",
    ),
    AnchoredRule(
        "basic-auth",
        "Basic ",
        r"(?<![0-9A-Za-z]Basic )(?=[A-Za-z+/]{0,80}[0-9=])[0-9A-Za-z+/]{10,500}+={0,2}(?![\w.-])",
    ),
    AnchoredRule("private-key", "BEGIN ", "[A-Z0-9 ]{0,40}PRIVATE KEY"),
    AnchoredRule("private-key", "BEGIN", r"(?:\+|%20)[A-Z0-9+%]{0,60}?PRIVATE(?:\+|%20)KEY"),  # URL-encoded
    AnchoredRule("private-key", "PuTTY-User-Key-File-", r"\d"),
    AnchoredRule("private-key", "Private-", "(?:Lines|MAC): [0-9a-f]{20}"),
)


class Trie:
    """Rules in a tree of the characters of their prefixes."""

    def __init__(self) -> None:
        self.rules: list[tuple[str, str]] = []
        self.below: dict[str, Trie] = {}

    def insert(self, prefix: str, rule: tuple[str, str]) -> None:
        """Add a rule under its prefix."""
        node = self
        for character in prefix:
            node = node.below.setdefault(character, Trie())
        node.rules.append(rule)
