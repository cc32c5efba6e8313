"""Places that are said by a URL, such as a folder of an object store: how they are opened, and asked again.

Everything that reads or writes there goes through `pyarrow.fs`.  What must hold: a request that fails is made again
before it counts as failed, and nobody is shown what may be secret in a URL: user, password and options.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from pyarrow import NativeFile, fs

Made = TypeVar("Made")
TRIES = 5
"""A request that fails is made so often, with pauses that grow."""
BLOCK = 16 << 20
"""Bytes of a local file that are in memory while it is sent, about."""
CURE = "use file://, s3://, hdfs://, gs:// or abfs://, with options as pyarrow.fs.FileSystem.from_uri says."


class UrlError(OSError):
    """A URL that cannot be opened, whatever one tries."""


def read_url(place: str | os.PathLike[str]) -> str | None:
    """The URL by which a place is said; None if it is a folder.  A path has lost some of its slashes."""
    found = re.match(r"([a-z][a-z0-9+.-]+):/+", text := os.fspath(place))
    if found is None:
        return None
    return f"{found.group(1)}:{'///' if found.group(1) == 'file' else '//'}{text[found.end() :]}"


def show_url(url: str) -> str:
    """The URL without what may be secret."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def say_error(url: str, error: Exception) -> str:
    """What an error says, in one line, without the secrets of the URL."""
    said = str(error).splitlines()[0][:300].rstrip(".") if str(error) else type(error).__name__
    for secret in _secrets(url):
        said = said.replace(secret, "...")
    return f"{said}."


def _secrets(url: str) -> list[str]:
    """User, password and values of options, longest first; short ones say nothing."""
    parts = urlsplit(url)
    found = [parts.username, parts.password, *(option.partition("=")[2] for option in parts.query.split("&"))]
    texts = {text for part in found if part for text in (part, unquote(part)) if len(text) > 3}
    return sorted(texts - {"true", "http", "https"}, key=len, reverse=True)


def ask(url: str, call: Callable[[fs.FileSystem, str], Made]) -> Made:
    """What a call gives for the file system of a URL and the path in it; an error counts when it comes again."""
    for attempt in range(TRIES):
        try:
            return call(*open_url(url))
        except (FileNotFoundError, UrlError):
            raise
        except OSError:
            if attempt == TRIES - 1:
                raise
            time.sleep(0.1 * 2**attempt)
    raise AssertionError("not reached")


@functools.lru_cache(maxsize=32)
def open_url(url: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URL, and the path in it."""
    try:
        files, root = fs.FileSystem.from_uri(_in_one_request(url))
    except (OSError, ValueError, NotImplementedError):  # what they say has the URL, which may hold a secret
        raise UrlError("pyarrow cannot open this URL.") from None
    return files, root.rstrip("/")


def _in_one_request(url: str) -> str:
    """The URL with an option by which S3 gets a small file in one request instead of three."""
    if not url.startswith("s3:") or "allow_delayed_open" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}allow_delayed_open=true"


def write_file(files: fs.FileSystem, path: str, content: bytes) -> None:
    """Make a file, whole or not at all."""
    with _made(files, path) as stream:
        stream.write(content)


def copy_file(files: fs.FileSystem, path: str, source: Path) -> None:
    """Make a file of a local one, whole or not at all.  Each block has been sent before the next one is read."""
    with open(source, "rb") as file, _made(files, path) as stream:
        while block := file.read(BLOCK):
            stream.write(block)
            stream.flush()  # S3 would go on with any number of blocks that wait in memory


@contextlib.contextmanager
def _made(files: fs.FileSystem, path: str) -> Iterator[NativeFile]:
    """A new file to write to.

    Stores show it when its stream is closed, and an error closes it: then it is removed.  A file system gets it under
    another name first.
    """
    renames = isinstance(files, fs.LocalFileSystem | fs.HadoopFileSystem)
    place = f"{path}.{uuid.uuid4().hex[:8]}.tmp" if renames else path
    if renames:
        files.create_dir(path.rpartition("/")[0], recursive=True)
    try:
        with files.open_output_stream(place, compression=None) as stream:
            yield stream
    except BaseException:
        with contextlib.suppress(OSError):
            files.delete_file(place)
        raise
    if renames:
        files.move(place, path)


def read_file(files: fs.FileSystem, path: str) -> bytes | None:
    """The content of a file; None if there is none."""
    try:
        with files.open_input_stream(path, compression=None) as stream:
            content: bytes = stream.read()
            return content
    except FileNotFoundError:
        return None


def list_names(files: fs.FileSystem, root: str, folder: str) -> list[str]:
    """The files of a folder and of those below it, by their names within the root, sorted."""
    selector = fs.FileSelector(f"{root}/{folder}".rstrip("/"), allow_not_found=True, recursive=True)
    found = (info.path[len(root) + 1 :] for info in files.get_file_info(selector) if info.type == fs.FileType.File)
    return sorted(name for name in found if not name.endswith(".tmp"))


def remove_file(files: fs.FileSystem, path: str) -> None:
    """Remove a file; one that is gone already is fine."""
    with contextlib.suppress(FileNotFoundError):
        files.delete_file(path)


def remove_folder(files: fs.FileSystem, path: str) -> None:
    """Remove a folder with all that is in it; one that is gone already is fine."""
    with contextlib.suppress(FileNotFoundError):
        files.delete_dir(path)
