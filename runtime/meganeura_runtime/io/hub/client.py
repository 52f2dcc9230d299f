"""Requests to a hub: the files of a revision, and their content.

The only importer of its library.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,  # pyright: ignore[reportPrivateImportUsage] - of the HTTP library it is built on
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import (
    http_get,  # pyright: ignore[reportUnknownVariableType] - a bar that is not used here
)
from huggingface_hub.utils import (
    build_hf_headers,  # pyright: ignore[reportUnknownVariableType] - an option that is not used here
    logging,
)

from meganeura_dsl import __version__
from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_runtime.io.files.file_problems import CannotWrite
from meganeura_runtime.io.hub.hub_problems import HubRefused, NotReached
from meganeura_runtime.io.hub.listing import Entry, Listing

ENDPOINT = "HF_ENDPOINT"
"""Set this variable to the address of another hub."""
LIBRARY = "meganeura"
PATIENCE = 10.0
"""Seconds that an answer may take to begin."""
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG)
"""Numbers of errors of the disk."""
PRIVATE = Help(
    "its owner and name are those of its page; if it is private, log in", "hf auth login"
)
NAMED = Help("a repository is named by its owner and its name", "hf:owner/name")
LATER = Help("ask again later; `HF_ENDPOINT` is the address that is asked, if it is set")
LOGIN = Help("accept its terms on its page, and log in with", "hf auth login")


def listing(repository: str, revision: str) -> Listing:
    """Returns the files of a revision with their checksums; raises `ProblemError`."""
    with _asked(repository, revision):
        api = HfApi(_endpoint(), library_name=LIBRARY, library_version=__version__)
        found = api.model_info(repository, revision=revision, files_metadata=True, timeout=PATIENCE)
        files = {
            each.rfilename: Entry(
                size=each.size,
                sha256=None if each.lfs is None else each.lfs.sha256,
                blob=each.blob_id,
            )
            for each in found.siblings or ()
        }
        return Listing(commit=found.sha or "", files=files)


def download(repository: str, name: str, commit: str, partial: Path, size: int | None) -> None:
    """Write a file, going on where `partial` ends; raises `ProblemError`."""
    url = hf_hub_url(repository, name, revision=commit, endpoint=_endpoint())
    headers = build_hf_headers(library_name=LIBRARY, library_version=__version__)
    if size is not None and partial.is_file() and partial.stat().st_size > size:
        partial.unlink()
    with _asked(repository, commit, partial), partial.open("ab") as file:
        http_get(url, file, resume_size=file.tell(), headers=headers, expected_size=size)


def _endpoint() -> str | None:
    return os.environ.get(ENDPOINT) or None


@contextmanager
def _asked(repository: str, revision: str, partial: Path | None = None) -> Generator[None]:
    """Raise `ProblemError` for what the hub refuses, and where it is not reached."""
    logging.set_verbosity_error()  # the errors below say what it warns of
    try:
        yield
    except GatedRepoError:
        reason = "its authors give it to those who accept their terms"
        raise ProblemError(HubRefused(repository, revision, reason, LOGIN)) from None
    except RepositoryNotFoundError:
        reason = "there is no such repository, or it is private"
        raise ProblemError(HubRefused(repository, revision, reason, PRIVATE)) from None
    except RevisionNotFoundError:
        reason = "it has no such branch, tag or commit"
        newest = Help("leave it out for the newest", f"hf:{repository}")
        raise ProblemError(HubRefused(repository, revision, reason, newest)) from None
    except (EntryNotFoundError, HFValidationError) as error:
        raise ProblemError(HubRefused(repository, revision, _line(error), NAMED)) from None
    except HfHubHTTPError as error:
        denied = error.response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        cure = PRIVATE if denied else LATER
        raise ProblemError(HubRefused(repository, revision, _line(error), cure)) from None
    except (HTTPError, OSError) as error:
        if isinstance(error, OSError) and error.errno in DISK and partial is not None:
            raise ProblemError(CannotWrite(partial, _line(error))) from None
        kept = partial.stat().st_size if partial is not None and partial.is_file() else 0
        raise ProblemError(NotReached(repository, revision, _line(error), kept)) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"its answer is not that of a hub: {_line(error)}"
        raise ProblemError(HubRefused(repository, revision, reason, LATER)) from None


def _line(error: Exception) -> str:
    """Returns the first line of what an exception says."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
