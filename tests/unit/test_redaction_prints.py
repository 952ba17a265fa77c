"""Values in the places of the twelfth set: what debuggers, shells of languages and tools print; calls; pass phrases."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text

TOKEN = "Zk2mX9vB4tR8wL1nPsq7Zk2mX9vB4tR8"


@pytest.mark.parametrize(
    "place",
    [
        'api_token = 0x55d0e0 "{}", port = 5432',
        '{{\n ApiToken: (string) (len=32) "{}"\n}}',
        ' $ api_token: chr "{}"',
        '["apiToken":"Config":private]=>\n  string(32) "{}"',
        "> config('services.shop.api_token')\n= \"{}\"",
        '> Sys.getenv("API_TOKEN")\n[1] "{}"',
        '1> application:get_env(shop, api_token).\n{{ok,"{}"}}',
        'scala> config.getString("shop.api-token")\nval res3: String = {}',
        'Keyword.get(opts, :api_token) #=> "{}"',
        " \u2514\u2500 [~] .API_TOKEN:\n     \u251c\u2500 [-] {}",
        "Found key 'shop.api.token' in [application.yml] with type [String] and value '{}'",
        "var.api_token\n  Enter a value: {}",
        '{{"API_TOKEN":{{"computed":"{}","note":""}}}}',
        '{{"api_token": {{"stringValue": "{}"}}}}',
        '{{"api_token":{{"S":"{}"}}}}',
        '<apiToken xsi:type="xsd:string">{}</apiToken>',
        '<setting id="api_token" default="false">{}</setting>',
        '<td>api_token</td>\n<td class="code"><pre>&#x27;{}&#x27;</pre></td>',
        '$ echo "Deploying with $API_TOKEN"\nDeploying with {}',
        'headers.insert("x-api-key", HeaderValue::from_static("{}"));',
        'store := sessions.NewCookieStore([]byte("{}"))',
        "||  Name  |  /web/api_token  ||\n||  Type  |  SecureString  ||\n||  Value |  {}  ||",
        'api_token = L"{}"',
        '[api_token]\n"{}"',
    ],
)
def test_a_token_is_hidden(place: str) -> None:
    assert TOKEN not in redact_text(f"before\n{place.format(TOKEN)}\nafter")


@pytest.mark.parametrize("password", ["lAu7SnRQ", "oe-rAn%5"])
@pytest.mark.parametrize(
    "place",
    [
        'curl_easy_setopt(curl, CURLOPT_USERPWD, "svc:{}");',
        '  auth = "admin:{}"',
        'PQsetdbLogin("db1", "5432", NULL, NULL, "shop", "web", "{}");',
        'redisCommand(c, "AUTH %s", "{}");',
        'local ok, err = red:auth("{}")',
        'Credentials::new("mailer".to_owned(), "{}".to_owned());',
        '[{{mailer,login,["mailer","{}"],[{{line,41}}]}}]',
        "(Pdb) p user, password\n('mailer', '{}')",
        "    server.login(user, password)\n    \u2502      \u2502     \u2514 '{}'",
        "| 41 | init | SET PASSWORD FOR 'web'@'%' = '{}' |",
        "$ htpasswd -nbB ops '{}'",
        "$ pass show infra/grafana\n{}",
        '"outputs":{{"db_password":{{"sensitive":true,"type":"string","value":"{}"}}}}',
        'changed: password "old" => "{}"',
        "CREATE USER web IDENTIFIED BY {};",
        "credentials are web:{}",
        "snmp-server user ops staff v3 auth sha {}",
    ],
)
def test_a_short_random_password_is_hidden(place: str, password: str) -> None:
    assert password not in redact_text(f"before\n{place.format(password)}\nafter")


@pytest.mark.parametrize("escape", ["\\u001b", "\\x1b", "\\033", "\\e"])
def test_a_colour_that_is_escaped_hides_no_value(escape: str) -> None:
    text = f"{escape}[33mDB_PASSWORD{escape}[39m={escape}[32mlAu7SnRQ{escape}[39m"
    assert redact_text(text) == "[redacted: password]"


@pytest.mark.parametrize("phrase", ["orbit-velvet-canyon-lantern", "Orbit.Velvet.Canyon"])
@pytest.mark.parametrize(
    "place",
    [
        "db_password: {}",
        "<wsse:Password>{}</wsse:Password>",
        "password..: {}",
        "Driver=x;Pwd={{{}}};Encrypt=yes",
        "| smtp_password | {} |",
        "smtp_password | {}",
        "    DbPassword    REG_SZ    {}",
        "Key: db password\nValue: {}",
        "PS C:\\> (Get-Secret -Name db-password -AsPlainText)\n{}",
        " user  password\n------ --------------------\n ann    {}",
        "host,user,password\ndb1,web,{}",
        "$ fly secrets set --db-password {}",
    ],
)
def test_a_pass_phrase_of_words_is_hidden(place: str, phrase: str) -> None:
    assert phrase not in redact_text(f"before\n{place.format(phrase)}\nafter")


@pytest.mark.parametrize("password", ["falcon-butter-353", "8FYLrxwu", "winter1948", "Tiger77"])
def test_in_a_column_of_passwords_a_value_need_not_be_random(password: str) -> None:
    assert password not in redact_text(f"user,password\nann,{password}")
    assert password not in redact_text(f"USER  DB_PASSWORD\nann   {password}")
    assert redact_text(f"user,api_key\nann,{password}") == f"user,api_key\nann,{password}"


@pytest.mark.parametrize(
    "table",
    [
        "user,password\nann,bcrypt12",
        "user,password\nann,test2024",
        "user,password\nann,SHOP-1234",
        "user,password policy\nann,strong-12",
    ],
)
def test_what_a_column_says_of_passwords_stays(table: str) -> None:
    assert redact_text(table) == table


@pytest.mark.parametrize(
    "line",
    [
        "password = settings.database.password",
        "password: Joi.string().min(8)",
        "PasswordHasher: Shop.Domain.Hashing",
        "password = Shop.Domain.Hashing.create()",
        "Cherry-picking 8f3a0c1d5e108f3a0c1d5e108f3a0c1d5e108f3a (Hash the API keys)",
        "ami-0c1d5e108f3a0c1d5 (token-service-2026-03-04)",
        "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
        "<string>Enter the password</string>",
        "<forgotPassword>Vergessen?</forgotPassword>",
    ],
)
def test_what_resembles_those_stays(line: str) -> None:
    assert redact_text(line) == line
