import pytest

from scripts.constant_patterns import violations


@pytest.mark.parametrize(
    "source",
    [
        "import re\ndef f(text): return re.fullmatch(text, 'a')",
        "import re\ndef f(text): return re.compile(f'{text}*')",
        "import re\nasync def f(text): return re.sub(pattern=text, repl='', string='a')",
        "import re\nf = lambda text: re.search('a' + text, 'a')",
        "from re import compile",
        "import re as regex",
        "import fnmatch",
        "from fnmatch import fnmatchcase",
    ],
)
def test_pattern_that_a_client_may_write_is_refused(source: str) -> None:
    assert len(list(violations(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import re\n_A = re.compile('|'.join(['a', 'b']))",
        "import re\ndef f(text): return re.fullmatch(r'a*', text)",
        "import re\n_A = re.compile('a')\ndef f(text): return _A.fullmatch(text)",
        "import re\ndef f(text): return re.escape(text)",
    ],
)
def test_constant_pattern_is_allowed(source: str) -> None:
    assert list(violations(source)) == []
