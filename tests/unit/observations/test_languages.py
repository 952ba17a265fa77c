"""Reports of tools in other languages than English."""

from __future__ import annotations

import pytest

from tellback.contracts.guidance import OutcomeCode
from tests.support.tool_results import code

SAID: list[tuple[str, OutcomeCode]] = [
    ("Zu viele Anfragen. Bitte versuchen Sie es später erneut.", "rate_limited"),
    ("Demasiadas solicitudes. Inténtelo de nuevo más tarde.", "rate_limited"),
    ("Trop de requêtes", "rate_limited"),
    ("Слишком много запросов, повторите попытку позже", "rate_limited"),
    ("请求过于频繁 请稍后再试", "rate_limited"),
    ("リクエストが多すぎます", "rate_limited"),
    ("Dienst vorübergehend nicht verfügbar", "unavailable"),
    ("Servicio no disponible temporalmente", "unavailable"),
    ("Превышено время ожидания", "unavailable"),
    ("服务暂时不可用", "unavailable"),
    ("Zugriff verweigert", "denied"),
    ("Доступ запрещён", "denied"),
    ("没有权限", "denied"),
    ("Ungültiger Parameter: n", "invalid_arguments"),
    ("参数错误", "invalid_arguments"),
    ("Keine Ergebnisse gefunden", "no_results"),
    ("No se encontraron resultados", "no_results"),
    ("По вашему запросу ничего не найдено", "no_results"),
    ("没有找到结果", "no_results"),
    ("結果が見つかりませんでした", "no_results"),
    ("검색 결과가 없습니다", "no_results"),
]


@pytest.mark.parametrize(("said", "expected"), SAID)
def test_what_a_tool_reports(said: str, expected: OutcomeCode) -> None:
    assert code(error=said) == expected
    assert code(said) == expected, "also as a result that is nothing else"


def test_an_article_that_mentions_such_words_is_a_result() -> None:
    article = "„Zugriff verweigert“ ist ein deutscher Fernsehfilm aus dem Jahr 2012. " * 4
    assert code(article) == "ok"


@pytest.mark.parametrize(
    "said", ["Bitte bestätigen Sie, dass Sie kein Roboter sind", "Vérifiez que vous êtes humain", "请输入验证码"]
)
def test_pages_that_ask_for_a_person(said: str) -> None:
    assert code(said) == "rate_limited"
    assert code(f"<html><body><p>{said}</p></body></html>") == "rate_limited"
