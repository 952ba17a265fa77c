"""Prefixes of tokens that no other test reads: each names the issuer, whatever else the line says.

The templates are those of `tests.support.secrets`. A token that only the general rules hide has another name.
"""

from __future__ import annotations

import random
from string import ascii_letters
from typing import Final

import pytest

from tellback.redaction import find_secret
from tests.support.secrets import UUID, draw

# The rule's name, what follows the prefix, and the prefixes.
ISSUED: Final = (
    ("github-token", "{an36}", "gho_ ghu_ ghr_"),
    ("gitlab-token", "{an36}", "glrtr- glwt-"),
    ("npm-token", "{an36}", "npm_"),
    ("packagist-token", "{hx40}", "packagist_ort_ packagist_org_ packagist_ack_ packagist_act_"),
    ("clojars-token", "{an64}", "clojars_"),
    ("buildkite-token", "{an36}", "bkaj_ bkct_"),
    ("prefect-token", "{an36}", "pnu_ pnb_"),
    ("sentry-token", "{an36}", "sntrya_ sntryi_"),
    ("sonar-token", "{hx40}", "sqp_"),
    ("pganalyze-key", "{an36}", "pgar_"),
    ("spinnaker-key", "{an36}", "spu- spg-"),
    ("splunk-key", "{an36}", "spa- spi-"),
    ("polar-token", "{an36}", "polar_oat_ polar_pat_ polar_whs_ polar_at_"),
    ("aikido-token", "{an36}", "AIK_CI_ AIK_CLIENT_"),
    ("val-town-token", "{an36}", "vtwn_"),
    ("bitrise-token", "{hx40}", "bitat_ bitpat_"),
    ("aiven-token", "{an36}", "AVNS_"),
    ("elastic-key", "{hx40}", "essl_"),
    ("fly-token", "{hx40}", "fm1r_"),
    ("host-token", "{an36}", "nfc_ vcp_ vci_ vca_ vck_ vercel_ ddp_ ddw_ cfut_ cfat_ apify_api_"),
    ("swarm-token", "{an36}", "SWMKEY-1-"),
    ("ngrok-token", "{an24}_{an20}", "1 2 3"),
    ("upcloud-token", "{an36}", "ucat_"),
    ("upbound-token", "{an36}", "aivenv1"),
    ("datastax-token", "{an36}", "AstraCS:"),
    ("alibaba-key", "{an36}", "STS."),
    ("exoscale-key", "{al26}", "EXO"),
    ("kubernetes-token", "{wd64}", "k8s-aws-v1."),
    ("vault-token", "{an36}", "hvs. hvb. hvr."),
    ("aws-session-token", "{an64}", "FwoGZXIvYXdz"),
    ("doppler-token", "{an36}", "dp.sa. dp.scim."),
    ("1password-token", "eyJ{wd80}", "ops_"),
    ("dynatrace-token", "{au8}.{an60}", "dt0s01. dt0s02. dt0s08."),
    ("new-relic-key", "{an36}", "NRIQ- NRRA-"),
    ("grafana-token", "{an36}", "glsa_"),
    ("honeycomb-key", "{hx40}", "hcalk_"),
    ("configcat-key", "{wd22}/{wd22}", "configcat-sdk-1/ configcat-proxy/"),
    ("devcycle-key", "{an36}", "dvc_client_ dvc_mobile_ dvc_server_"),
    ("voiceflow-key", "{hx24}.{an16}", "VF. VF.WS."),
    ("scrapfly-key", "{hx32}", "scp-test-"),
    ("pangea-token", "{hx32}", "pcs_"),
    ("persona-key", UUID, "persona_sandbox_"),
    ("gcp-gemini-key", "{an36}", "AQ.Ab"),
    ("canva-secret", "{an36}", "cnvca"),
    ("cartesia-key", "{an36}", "sk_car_"),
    ("devin-token", "{hx40}", "cog_"),
    ("lichess-token", "{an36}", "lip_"),
    ("mem0-key", "{an36}", "m0-"),
    ("proof-key", "{an36}", "prf_"),
    ("unkey-key", "{an36}", "unkey_"),
    ("application-key", "{an43}=", "base64:"),
    ("zoho-token", "{hx32}.{hx32}", "1000. 1001."),
    ("tailscale-key", "{hx24}-{hx40}", "tskey-client- tskey-scim-"),
    ("pubnub-key", UUID, "rh-api-"),
    ("paystack-key", "{an36}", "sk_pr_"),
    ("posthog-key", "{an36}", "phx_ phs_"),
    ("webhook-secret", "{an36}", "whsec_"),
    ("checkout-key", UUID, "sk_ sk_test_ sk_sbox_"),
    ("checkout-key", "{hx32}", "pk_sbox_"),
    ("shopify-token", "{hx32}", "shpua_"),
    ("shippo-token", "{hx40}", "shippo_live_ shippo_test_"),
    ("duffel-token", "{an36}", "duffel_live_"),
    ("flutterwave-key", "{an36}", "FLWSECK- FLWSECK_LIVE-"),
    ("razorpay-key", "{an36}", "rzp_test_"),
    ("gocardless-token", "{hx24}-{hx40}", "live_"),
    ("plaid-token", UUID, "access-development-"),
    ("discord-token", "{wd64}", "mfa."),
    ("discord-token", "{an24}.{an6}.{wd38}", "N O"),
    ("sendgrid-key", "{an22}.{an36}", "SG."),
    ("sendgrid-key", "{wd64}", "SG."),
    ("onesignal-key", "{al60}", "os_v2_org_"),
    ("work-token", "{an36}", "waka_ lmb_ lma_ mka_ pina_ samsara_api_ tss_ zpka_ sec-c- cal_live_ y0_ y1_ y2_ y3_"),
    ("woocommerce-key", "{hx40}", "ck_ cs_"),
    ("ubidots-token", "{an36}", "BBUS-"),
    ("midtrans-key", "{an36}", "Mid-server-"),
    ("linear-key", "{an36}", "lin_api_ lin_oauth_"),
    ("notion-token", "{hx40}", "ntn_"),
    ("figma-token", "{an36}", "figu_ figh_ figoh_"),
    ("hubspot-token", UUID, "pat-eu1- pat-na2- pat-eu2- pat-ap1-"),
    ("dropbox-token", "{wd64}", "sl.u."),
    ("ory-token", "{hx40}", "ory_rt_ ory_ac_ ory_pat_"),
    ("stytch-secret", "{an36}", "secret-test-"),
    ("intra42-secret", "{hx64}", "s-s4t2af-"),
    ("openai-key", "{an36}", "sk-proj- sk-svcacct- sk-admin- sk-None- T3BlbkFJ"),
    (
        "model-provider-key",
        "{an36}",
        "gsk_ pplx- tvly-dev- tvly- r8_ fc- xai- pcsk_ lsv2_sk_ sess- e2b_ mem0- exa_ bb_live_",
    ),
    ("model-provider-key", "{hx40}", "pa- crsr_ key_"),
    ("axiom-token", UUID, "xapt-"),
    ("bitcoin-key", "{an100}", "yprv zprv tprv"),
    ("password-hash", "{an4}${an60}", "$1$ $5$ $7$"),
    ("aws-access-key", "{au16}", "ABIA AIDA AROA"),
    ("aws-access-key", "{au17}", "A3T"),
    ("elastic-token", "{hx40}", "AAEAAWVsYXN0aWMv"),
    ("instagram-token", "{wd64}", "IGQV IGQW IGAA"),
    ("private-key", "{an36}", "LS0tLSBCRUdJTiBTU0gy UHVUVFktVXNlci1LZXktRmls"),
    ("canva-id", "{an11}", "OC-A"),
    ("lark-id", "{hx14}", "cli_a"),
    ("asaas-token", "{an40}", "$aact_ $aact_hmlg_ $aact_prod_"),
    ("databento-key", "{an29}", "db-"),
    ("onfido-key", "{wd11}.{wd20}", "api_live_us. api_live_ca. api_sandbox. api_sandbox_us. api_sandbox_ca."),
    ("mapbox-token", "{an60}.{wd22}", "pk. sk. tk."),
    ("braintree-token", "{al16}${hx32}", "access_token$production$ access_token$sandbox$"),
    ("convex-key", "happy-otter-123|{an48}", "dev: preview:"),
    ("authress-key", "{al12}.{al4}.acc-{al20}", "ext_ scauth_"),
    ("stripe-key", "{an24}", "sk_live_ sk_prod_ rk_live_ rk_test_ rk_prod_"),
    ("stripe-key", "{an99}", "sk_test_"),
    ("slack-token", "{dg1}-{dg12}-{dg12}-{hx64}", "xoxc- xoxd- xoxe- xoxo-"),
    ("slack-token", "{au10}-{dg12}-{hx64}", "xapp-1- xapp-2- xapp-3- xapp-4-"),
    ("slack-token", "xoxp-1-{an60}", "xoxe."),
    ("nats-seed", "{3256}", "SU SA SO SN SC SX"),
    ("django-key", "{an50}", "django-insecure-"),
    ("json-web-token", "{wd30}.eyJ{wd40}.{wd43}", "eyJ"),
    ("password-hash", "10${an53}", "$2x$"),
    ("neon-password", "{an12}", "npg_"),
    ("vault-token", "{le90}", "hvs. hvb. hvr."),
)


@pytest.mark.parametrize(
    ("name", "template", "prefixes"), ISSUED, ids=[f"{row[0]}-{at}" for at, row in enumerate(ISSUED)]
)
def test_a_token_is_named_by_its_prefix(name: str, template: str, prefixes: str) -> None:
    rng = random.Random(20261129)
    for prefix in prefixes.split():
        token = f"{prefix}{draw(rng, template)}"
        assert find_secret(token) == name, token
        assert find_secret(f"using {token} for this run") == name, token


@pytest.mark.parametrize(
    "prefix", ["sk_live_", "rk_test_", "npg_", "hvs.", "s.", "STS.", "sbp_", "unkey_", "o.", "waka_", "cal_live_"]
)
def test_a_token_without_a_digit_is_hidden_behind_its_prefix(prefix: str) -> None:
    """One of 24 letters and digits in 65 has none. Its changes of case tell it, not so one of a hundred."""
    source = random.Random(6)
    tokens = ["".join(source.choice(ascii_letters) for _ in range(24 if prefix == "s." else 32)) for _ in range(200)]
    assert sum(find_secret(f"use {prefix}{token} now") is None for token in tokens) <= 8


@pytest.mark.parametrize(
    "line",
    [
        "stripe.api_key = 'sk_test_YourStripeSecretKeyGoesHere'",
        "rnd_nextPositiveIntegerOfTheRange(seed)",
        "x = s.someAttributeOfTheTableName",
        "live_preview_of_the_whole_document_in_the_browser",
        "o.thePropertyOfAnObjectWithLongNam",
    ],
)
def test_words_behind_a_prefix_stay(line: str) -> None:
    assert find_secret(line) is None
