"""A tree with files of all kinds."""


def make_tree(root):
    (root / "empty").mkdir(parents=True)
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/file").write_bytes(bytes(range(256)))
    (root / "deep/nothing").write_text("")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("deep/er/file")
    (root / "away").symlink_to("/nowhere")
    (root / "odd é ü name").write_text("x")
    return root
