"""Check that documents, docstrings and comments are plain: python tests/prose_check.py

Print each file group with its share of stilted phrases and long sentences, and exit with 1 above a limit.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Phrases that plain English has a shorter word for.
PHRASES = re.compile(
    r"\b(?:anew|thereof|therein|whereof|thereby|meanwhile|beside|at the (?:most|least)"
    r"|(?:is|are|was|were) (?:told|said)|of whom|there (?:is|are) none|is wanted"
    r"|(?:that|those) of(?= \w+ (?:is|are|was|has))|for (?:it|they) (?:is|are|was|has|have)"
    # A clause in the place of a noun: "what it needs", "of what was measured".
    r"|(?:(?<=[.,;:(] )|(?:of|by|with|from|in|and|or|to|than|is|are|for) )what"
    r" (?!is the|are the)(?:is|was|were|are|has|had|it|they|a|the|each|one|no|can|\w+ed))\b",
    re.IGNORECASE,
)
MOST_WORDS = 30
# Phrases per 1,000 words, and the share of sentences with more than MOST_WORDS words.
DOCUMENTS = (2.0, 0.05)
CODE_PHRASES = 2.0
COMMENT = re.compile(r"(?:^|\s)#+ (.+)")
# Besides Python: scripts, rules, configuration.
COMMENTED = {".sh", ".smk", ".yaml", ".toml", ".txt", ".args", ".conf", ""}


def text_of_document(path: Path) -> str:
    """Return a Markdown file without code, tables' rulers and link targets."""
    text = re.sub(r"```.*?```", " ", path.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.M)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "X", text)
    return re.sub(r"\||^[-*#] |\n\s*\n", ". ", text, flags=re.M)


def docstrings(path: Path) -> str:
    """Return all docstrings of a Python file."""
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, nodes))
    return "\n\n".join(text for text in found if text)


def comments(path: Path) -> str:
    """Return the comments of a file that starts them with `#`, as one text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(found[1] for line in lines if (found := COMMENT.search(line)))


def figures(text: str) -> tuple[float, float]:
    """Return the phrases per 1,000 words, and the share of long sentences."""
    words = len(text.split()) or 1
    sentences = [s.split() for s in re.split(r"(?<=[.!?:])\s", text) if len(s.split()) >= 4]
    long = sum(len(sentence) > MOST_WORDS for sentence in sentences)
    return 1000 * len(PHRASES.findall(text)) / words, long / (len(sentences) or 1)


def main() -> int:
    """Check all tracked files."""
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    paths = [ROOT / name for name in names if (ROOT / name).exists()]
    documents = [path for path in paths if path.suffix == ".md" and "published" not in path.parts]
    code = [path for path in paths if path.suffix == ".py" and "workflow" in path.parts]
    others = [path for path in paths if path.suffix in COMMENTED and "published" not in path.parts]
    of_documents = figures("\n\n".join(map(text_of_document, documents)))
    of_code = figures("\n\n".join(map(docstrings, code)))
    of_comments = figures("\n\n".join(map(comments, [*code, *others])))
    print(f"documents: {of_documents[0]:.1f} phrases per 1,000 words, {of_documents[1]:.1%} long")
    print(f"docstrings: {of_code[0]:.1f} phrases per 1,000 words")
    print(f"comments: {of_comments[0]:.1f} phrases per 1,000 words")
    too_much = any(value > most for value, most in zip(of_documents, DOCUMENTS, strict=True))
    return int(too_much or max(of_code[0], of_comments[0]) > CODE_PHRASES)


if __name__ == "__main__":
    sys.exit(main())
