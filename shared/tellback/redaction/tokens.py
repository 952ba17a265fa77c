"""What tokens look like that name their issuer: a prefix that nothing else has, then enough of the right characters.

The formats are those that gitleaks keeps and issuers publish, said in our own words. Lengths are the least that an
issuer ever used, or less: a token that a cut has shortened is a secret still.
"""

from __future__ import annotations

from typing import Final

_WORD: Final = r"[0-9A-Za-z_-]"
_ALNUM: Final = "[0-9A-Za-z]"
_HEX: Final = "[0-9a-fA-F]"
_DIGIT: Final = r"(?=[A-Za-z_-]{0,60}+\d)"  # what names of functions seldom have
_UUID: Final = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}"

# Rule, what follows the prefix, prefixes that begin a word.
PREFIXED: Final = (
    # version control, registries of packages, continuous integration
    ("github-token", f"{_ALNUM}{{30}}", "ghp_ gho_ ghu_ ghs_ ghr_"),
    ("github-token", f"{_WORD}{{30}}", "github_pat_"),
    (
        "gitlab-token",
        f"{_WORD}{{18}}",
        "glpat- gldt- glffct- glft- glimt- glagent- gloas- glptt- glrt- glrtr- glsoat- glcbt- glwt-",
    ),
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
    ("snyk-token", f"{_WORD}{{20}}", "snyk_uat. snyk_sat."),
    ("sonar-token", f"{_HEX}{{36}}", "squ_ sqp_ sqa_"),
    ("openshift-token", f"{_WORD}{{40}}", "sha256~"),
    ("scalingo-token", f"{_WORD}{{40}}", "tk-us-"),
    ("contentful-token", f"{_WORD}{{40}}", "CFPAT-"),
    # clouds, hosts, data
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
    ("planetscale-token", r"[\w=.-]{30}", "pscale_tkn_ pscale_oauth_ pscale_pw_"),
    ("vault-token", f"{_WORD}{{80}}", "hvs. hvb. hvr."),
    ("vault-token", r"(?=[A-Za-z]{0,23}+\d)[0-9A-Za-z]{24}(?![\w.])", "s."),
    ("doppler-token", f"{_ALNUM}{{36}}", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit."),
    ("doppler-token", rf"[\w-]{{2,35}}\.{_ALNUM}{{36}}", "dp.st."),
    ("1password-key", "[A-Z0-9]{6}-[A-Z0-9]{5,6}-?[A-Z0-9]{5}", "A3-"),
    ("1password-token", r"eyJ[\w+/-]{60}", "ops_"),
    ("age-key", "1[A-Z0-9]{50}", "AGE-SECRET-KEY-"),
    ("dynatrace-token", r"[0-9A-Za-z]{24}\.[0-9A-Za-z]{50}", "dt0c01. dt0s01. dt0s16."),
    ("new-relic-key", r"[\w-]{18}", "NRAK- NRII- NRJS- NRIQ- NRRA-"),
    ("grafana-token", r"[\w+/-]{30}", "glc_ glsa_"),
    ("honeycomb-key", f"{_ALNUM}{{40}}", "hcaik_ hcalk_"),
    ("postman-key", f"{_HEX}{{24}}-{_HEX}{{30}}", "PMAK-"),
    ("tailscale-key", f"{_ALNUM}{{6,24}}-{_ALNUM}{{16}}", "tskey-auth- tskey-api- tskey-client- tskey-scim-"),
    ("launchdarkly-key", _UUID, "sdk- mob-"),
    ("posthog-key", f"{_ALNUM}{{36}}", "phx_ phs_"),
    ("settlemint-token", f"{_ALNUM}{{16}}", "sm_aat_ sm_pat_ sm_sat_"),
    ("defined-networking-token", f"{_WORD}{{40}}", "dnkey-"),
    ("authress-key", r"[0-9a-z]{5,30}\.[0-9a-z]{4,6}\.acc[_-][0-9a-z-]{10}", "sc_ ext_ scauth_ authress_"),
    ("yandex-token", r"[\w-]{20,300}={0,2}\.[\w-]{80}", "t1."),
    # payment, shipping, shops
    ("stripe-key", f"{_ALNUM}{{14}}", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_"),
    ("webhook-secret", r"[\w+/-]{24}", "whsec_"),
    ("mollie-key", f"{_DIGIT}{_ALNUM}{{30}}", "live_"),
    ("mollie-key", rf"(?=[a-z\d]{{0,60}}+[A-Z]){_DIGIT}{_ALNUM}{{30}}", "test_"),
    ("checkout-key", _UUID, "sk_ sk_test_ sk_sbox_"),
    ("square-token", f"{_WORD}{{22}}", "sq0atp- sq0csp- sq0idp-"),
    ("shopify-token", f"{_HEX}{{32}}", "shpat_ shpca_ shppa_ shpss_ shpua_"),
    ("shippo-token", f"{_HEX}{{36}}", "shippo_live_ shippo_test_"),
    ("duffel-token", f"{_WORD}{{36}}", "duffel_live_ duffel_test_"),
    ("flutterwave-key", "[0-9A-Za-z-]{12}", "FLWSECK_TEST- FLWSECK- FLWPUBK_TEST- FLWSECK_LIVE-"),
    ("razorpay-key", f"{_ALNUM}{{14}}", "rzp_live_ rzp_test_"),
    ("lob-key", f"(?:pub_)?{_HEX}{{30}}", "live_ test_"),
    ("gocardless-token", f"{_WORD}{{38}}", "live_"),
    ("plaid-token", _UUID, "access-sandbox- access-development- access-production-"),
    ("braintree-token", r"[0-9a-z]{16}\$[0-9a-f]{32}", "access_token$production$ access_token$sandbox$"),
    ("amazon-mws-token", _UUID, "amzn.mws."),
    # chat, mail, work
    ("slack-token", r"[\w.-]{10}", "xoxc- xoxd- xoxe- xoxo- xapp-1- xapp-2- xoxe."),
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
    ("onesignal-key", "[0-9a-z]{60}", "os_v2_app_ os_v2_org_"),
    ("adafruit-key", f"{_ALNUM}{{28}}", "aio_"),
    (
        "work-token",
        f"{_DIGIT}{_WORD}{{30}}",
        "waka_ lmb_ lma_ mka_ pina_ rootly_ samsara_api_ tss_ zpka_ sec-c- cal_live_",
    ),
    ("woocommerce-key", f"{_HEX}{{40}}", "ck_ cs_"),
    ("ubidots-token", f"{_ALNUM}{{30}}", "BBFF- BBUS-"),
    ("midtrans-key", f"{_WORD}{{24}}", "Mid-server-"),
    ("linear-key", f"{_ALNUM}{{32}}", "lin_api_ lin_oauth_"),
    ("notion-token", f"{_ALNUM}{{40}}", "ntn_ secret_"),
    ("figma-token", f"{_WORD}{{36}}", "figd_ figu_"),
    ("frameio-token", f"{_WORD}{{50}}", "fio-u-"),
    ("typeform-token", r"[\w.=-]{40}", "tfp_"),
    ("hubspot-token", _UUID, "pat-na1- pat-eu1- pat-na2-"),
    ("dropbox-token", r"[\w=-]{60}", "sl. sl.u."),
    ("mapbox-token", r"[0-9A-Za-z]{50,100}\.[\w-]{20}", "pk. sk. tk."),
    ("adobe-secret", f"{_WORD}{{30}}", "p8e-"),
    ("intra42-secret", f"{_HEX}{{50}}", "s-s4t2ud- s-s4t2af-"),
    # models and what agents use
    ("anthropic-key", f"{_WORD}{{20}}", "sk-ant-"),
    ("openai-key", f"{_WORD}{{20}}", "sk-proj- sk-svcacct- sk-admin- sk-None-"),
    ("model-provider-key", f"{_ALNUM}{{32}}", "sk- gsk_ pplx- csk- tvly-dev- tvly- r8_ hf_ api_org_ jina_ fc-"),
    ("model-provider-key", f"{_WORD}{{30}}", "xai- nvapi- pcsk_ pa- tgp_v1_ sk-or-v1- lsv2_pt_ lsv2_sk_ sk-lf-"),
    ("model-provider-key", f"{_WORD}{{40}}", "jina_"),
    ("model-provider-key", f"{_HEX}{{40}}", "sk_"),
    ("model-provider-key", "[0-9A-Z]{30}[0-9A-Za-z]{10}", "rpa_"),
    ("model-provider-key", f"{_ALNUM}{{22}}", "fw_ key_ sess- e2b_ bb_live_ mem0- exa_"),
)

# What a prefixed token has in it: without that, no prefix is looked for.
PREFIXED_NEED: Final = r"[-_./!$~](?=[\w+/=%-]{12})"
# Rule, pattern of what is told by more than what it begins with; each begins with a mark that is rare in words.
MARKED: Final = (
    ("terraform-token", rf"\.atlasv1\.{_WORD}{{50}}"),
    ("azure-client-secret", r"~(?<=\dQ~)[\w~.-]{28}"),
    ("maxmind-key", "_mmk(?<=_[0-9A-Za-z]{29}_mmk)"),
    ("mailchimp-key", r"-us\d(?<=[0-9a-f]{32}-us\d)"),
    ("mailgun-key", "-(?<=[0-9a-h]{32}-)[0-9a-h]{8}-[0-9a-h]{8}(?![0-9a-h-])"),
    ("telegram-token", r":A(?<=\d{8}:A)[\w-]{33}"),
    ("asana-token", r":(?<=\d/\d{15}:)[0-9a-f]{32}(?![0-9a-f])"),
    ("asana-token", r":(?<=\d/\d{16}:)[0-9a-f]{32}(?![0-9a-f])"),
    ("password-hash", r"\$(?:apr1|1|5|6|y|7)\$(?:rounds=\d{1,9}\$)?[\w./]{1,22}\$[\w./]{20}"),
    ("password-hash", r"\$2[abxy]\$\d\d\$[\w./]{50}"),
    ("password-hash", r"\$argon2(?:id|i|d)\$[\w=,$+/]{30}"),
    ("firebase-key", r":APA91b[\w-]{60}"),
    ("facebook-token", r"\|(?<=\d{15}\|)[\w-]{27}"),
)
# Rule, pattern; each begins with a capital letter, which a scan of prose rarely stops at.
CAPITAL: Final = (
    ("aws-access-key", "AKIA[0-9A-Z]{16}"),
    ("aws-access-key", "A(?:SIA|BIA|CCA|IDA|ROA|3T[A-Z0-9])(?<![0-9A-Za-z]A...)[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("aws-bedrock-key", "ABSK[0-9A-Za-z+/]{60}"),
    ("google-api-key", r"AIza[\w-]{32}"),
    ("artifactory-key", "AKCp[0-9A-Za-z]{40}"),
    ("atlassian-token", r"AT(?:ATT|CTT|BB)3?[\w=-]{24}"),
    ("trello-token", "ATTA[0-9a-f]{60}"),
    # Microsoft's own marks within keys: functions, search, storage, registries, caches, batch, events and others.
    ("azure-key", r"Az(?:Fu|Se|Ca)(?<=[\w+/-]{42}Az..)[\w+/-]{6}"),
    ("azure-key", r"A(?:St|EH|Rm|Ba|CR|Ic|IoT)(?<=[\w+/-]{37}\+...)[\w+/=-]{6}"),
    ("new-relic-key", "NRAL(?<=[0-9a-fx]{36}NRAL)"),
    ("yandex-key", r"YC(?<![\w+/-]YC)(?=[A-Za-z_-]{0,40}+\d)[\w-]{38}(?![\w+/=-])"),
    ("volcengine-key", "AKLT[0-9A-Za-z]{40}"),
    ("tencent-key", r"AKID[0-9A-Za-z]{28}"),
    ("yandex-key", r"AQVN[\w-]{32}"),
    ("twitter-token", "AAAAAAAAAAAAAAAAAAAA[0-9A-Za-z%]{50}"),
    ("square-token", r"EAAA[\w-]{55}"),
    ("facebook-token", "EAA[0-9A-Za-z]{80}"),
    ("easypost-key", "EZ[AT]K[0-9A-Za-z]{50}"),
    ("gitlab-token", r"GR1348941[\w-]{18}"),
    ("alibaba-key", "LTAI[0-9A-Za-z]{16}"),
    ("twilio-key", "SK[0-9a-f]{32}(?![0-9a-f])"),
    ("twilio-key", "AC(?<![0-9A-Za-z]AC)[0-9a-f]{32}(?![0-9a-f])"),
    ("instagram-token", r"IG(?:QV|QW|AA)[\w-]{60}"),
    ("json-web-token", r"J(?<=eyJ)(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ))[\w-]{12,2000}+\.[\w-]{2}"),
    ("private-key", "LS0tLS1CRUdJTi(?:BQUklW|BSU0Eg|BFQyBQ|BPUEVOU1NI|BFTkNSWVBU|BEU0Eg)"),
    ("json-web-token", "ZXlK[0-9A-Za-z+/]{50}"),
    ("grafana-token", "JrIjoi(?<=eyJrIjoi)[0-9A-Za-z+/]{50}"),
    ("openai-key", r"T3BlbkFJ[\w-]{16}"),
    ("private-key", "BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"),
    ("private-key", r"PuTTY-User-Key-File-\d"),
    ("private-key", r"Private-(?:Lines|MAC): [0-9a-f]{20}"),
)
# No mark that the others share, and a word that prose has parts of: a search of its own.
CARGO: Final = (("cargo-token", r"cio(?<![\w]cio)[0-9A-Za-z]{32}(?![\w])"),)
NO_RUN: Final = ("Bearer ", "Basic ", "PRIVATE KEY", "Private-")
"""What a match of the two has that does not lie in one run of token characters."""
SLACK: Final = (("slack-token", "xox[baprs]-"),)
# Header forms; the first is the source document's, at the start of a line. Case counts: "bearer of bad news" stays.
HEADERS: Final = (
    ("bearer", "Bearer (?<!.Bearer )"),
    ("bearer", r"Bearer (?<![0-9A-Za-z]Bearer )(?=[\w.~+/=-]{0,40}+)(?=[A-Za-z_.~+/-]{0,60}\d)[\w.~+/=-]{16}"),
    ("basic-auth", r"Basic (?<![0-9A-Za-z]Basic )(?=[A-Za-z+/]{0,80}[0-9=])[0-9A-Za-z+/]{10,500}+={0,2}(?![\w.-])"),
)
