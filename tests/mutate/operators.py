"""What may be broken in a line of C: each change is one mutant. Text only, no parser: what does not compile is counted
as such, and what compiles to the same object is left out."""
import dataclasses
import re

LITERAL = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)
# Only tell what must be true, or are data.
NOT_CODE = re.compile(r"^\s*(#|$|[{}]*;?$|case |default:|TF_ASSERT\(|TF_UNREACHABLE\(|_Static_assert\(|"
                      r"static const |enum )")
DECLARATION = re.compile(r"^\s*(const |static |struct |enum |unsigned |volatile )*[A-Za-z_]\w*(\s+\**|\s*\*+\s*)"
                         r"[A-Za-z_]\w*(\[[^\]]*\])*\s*(=|;|,)")
STATEMENT = re.compile(r"^\s*[^{}]*;\s*$")
RETURN = re.compile(r"^(\s*return )([^;]+)(;\s*)$")
SWAPS = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
    "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("/",),
    "&": ("|",), "|": ("&",), "^": ("|",), "<<": (">>",), ">>": ("<<",),
    "+=": ("-=",), "-=": ("+=",), "|=": ("&=",), "&=": ("|=",), "*=": ("/=",), "<<=": (">>=",), ">>=": ("<<=",),
}
BINARY = re.compile(r"(?<= )(<=|>=|==|!=|&&|\|\||<<=|>>=|<<|>>|\+=|-=|\|=|&=|\*=|[-<>+*/%&|^])(?= )")
STEP = re.compile(r"\+\+|--")
NUMBER = re.compile(r"(?<![\w.])(0x[0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])")
BOUND = re.compile(r"\b[A-Z][A-Z0-9_]*(?:MAX|MIN|LIMIT)[A-Z0-9_]*\b(?!\()")
WORDS = {"true": "false", "false": "true", "break": "continue", "continue": "break"}
NAME = re.compile(r"\b[A-Za-z_]\w*\b")
NOT = re.compile(r"(?<![\w!])!(?=[\w(])")


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str
    line: int  # from 1
    original: str
    changed: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.original.strip()} -> {self.changed.strip()}"

    def is_explained(self, explained, text):
        return explained.has(self.path, text.split("\n"), self.line, self.changed.strip())


def blank(match):
    text = match.group()
    if text.startswith("/"):
        return re.sub(r"[^\n]", " ", text)
    return text[0] + " " * (len(text) - 2) + text[-1]


def families(texts):
    """{constant: (the others of its enum)}, enums made of an X-macro included"""
    found = {}
    for text in texts:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", "\n")
        for body in re.findall(r"\benum\s+\w*\s*\{(.*?)\}", text, re.S):
            names = [name for name in re.findall(r"^\s*([A-Z][A-Z0-9_]+)\s*(?:=[^,]*)?,?", body, re.M)]
            names += re.findall(r",\s*([A-Z][A-Z0-9_]+)", re.sub(r"#define[^\n]*", "", body))
            for prefix, map_name in re.findall(r"#define X\([^)]*\)\s*(\w+?)##name[^\n]*\s+(\w+)\(X\)", body):
                listed = re.search(r"#define " + map_name + r"\(X\)(.*?)\n\s*\n", text, re.S)
                names += [prefix + name for name in re.findall(r"\bX\((\w+)", listed.group(1))] if listed else []
            names = [name for name in dict.fromkeys(names) if not name.endswith(("_MAP", "_COUNT"))]
            for name in names:
                found[name] = tuple(other for other in names if other != name)
    return found


def functions(code):
    """(first line, last line, the type it gives) of each function's body; lines from 0"""
    depth, start, header = 0, None, []
    for number, line in enumerate(code):
        opened = depth == 0 and "{" in line
        if depth == 0:
            header = [] if line.rstrip().endswith((";", "}")) or not line.strip() else header + [line]
        depth += line.count("{") - line.count("}")
        text = " ".join(header)
        if opened and depth > 0 and "(" in text and "=" not in text.split("(")[0] and not text.startswith("#"):
            start = number + 1
        if start is not None and depth == 0:
            yield start, number - 1, re.sub(r"\b(static|inline|const)\b", "", text.split("(")[0])
            start, header = None, []


def put(line, match, text):
    return line[:match.start()] + text + line[match.end():]


def numbers(line, code, kinds):
    for match in NUMBER.finditer(code):
        value, suffix = int(match.group(1), 0), match.group(2)
        for other in {value + 1, max(value - 1, 0)} - {value}:
            yield put(line, match, f"{other}{suffix}")
    for match in BOUND.finditer(code):
        if match.group() not in kinds:
            yield put(line, match, f"({match.group()} + 1)")
            yield put(line, match, f"({match.group()} - 1)")


def conditions(line, code):
    """The condition of an if or while that ends on its line, denied."""
    match = re.search(r"\b(if|while) \(", code)
    if match is None:
        return
    depth = 0
    for at in range(match.end() - 1, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            yield line[:match.end()] + "!(" + line[match.end():at] + ")" + line[at:]
            return


def returns(line, code, kind):
    match = RETURN.match(code)
    if match is None:
        return
    value = line[match.start(2):match.end(2)]
    if "tf_err" in kind.split():
        other = "TF_ERR_NOMEM" if value == "TF_OK" else "TF_OK"
    elif "bool" in kind.split():
        other = f"!({value})"
    else:
        other = "NULL" if "*" in kind else "0"
    yield line[:match.start(2)] + other + line[match.end(2):]


def whole(line, code, before):
    """The statement left out, where it begins and ends on this line."""
    if not STATEMENT.match(code) or DECLARATION.match(code) or code.strip().startswith(("return ", "goto ")):
        return
    if before.rstrip().endswith((";", "{", "}", ":")) and code.count("(") == code.count(")"):
        yield line[:len(line) - len(line.lstrip())] + ";"


def words(line, code, kinds):
    for match in NAME.finditer(code):
        name = match.group()
        if name in WORDS:
            yield put(line, match, WORDS[name])
        elif kinds.get(name):
            others = kinds[name]
            yield put(line, match, others[hash_of(line + name) % len(others)])


def hash_of(text):
    """The same in each run, unlike hash()."""
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) % (1 << 32)
    return value


def operators(line, code):
    for match in BINARY.finditer(code):
        for other in SWAPS[match.group()]:
            yield put(line, match, other)
    for match in STEP.finditer(code):
        yield put(line, match, "--" if match.group() == "++" else "++")
    for match in NOT.finditer(code):
        yield put(line, match, "")


def of_line(line, code, before, kind, kinds):
    changed = [*operators(line, code), *numbers(line, code, kinds), *conditions(line, code), *returns(line, code, kind),
               *whole(line, code, before), *words(line, code, kinds)]
    return [text for text in dict.fromkeys(changed) if text != line]


def of_file(path, text, kinds):
    """{line: [Mutant, ...]}, of the lines in functions only"""
    lines, code = text.split("\n"), LITERAL.sub(blank, text).split("\n")
    result = {}
    for first, last, kind in functions(code):
        before = "{"
        for at in range(first, last + 1):
            if code[at].strip() == "":
                continue
            if not NOT_CODE.match(code[at]):
                found = of_line(lines[at], code[at], before, kind, kinds)
                result[at + 1] = [Mutant(path, at + 1, lines[at], changed) for changed in found]
            before = code[at]
    return {line: mutants for line, mutants in result.items() if mutants}
