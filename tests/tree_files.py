"""A tree with files of all kinds, and .zip archives of any members."""

import io
import zipfile


def zip_of(*members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, mode, content, *extra in members:
            info = zipfile.ZipInfo(name)
            info.extra = b"".join(extra)
            info.create_system, info.external_attr = 3, mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return out.getvalue()


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
