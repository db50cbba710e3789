"""Errors of this package. Each message states the file or command, the fault, and a remedy."""


class PunctualError(Exception):
    """Base class of all errors of this package."""


class NotARecording(PunctualError):
    """The file is not what its reader expects."""


class NewerSchema(NotARecording):
    """A newer punctual wrote the recording."""


class ProgramMissing(PunctualError):
    """The program `punctual` cannot be started."""


class ProgramFailed(PunctualError):
    """The program `punctual` refused a request."""


class Unknown(PunctualError):
    """The recording does not contain this figure, because its source did not."""
