"""The error that people see: one line that says what is wrong and what would be right."""


class SimschedError(ValueError):
    """Wrong input: an option, a file, a parameter. The command line prints it and exits 2."""


def nearest(word: str, known: list[str]) -> str:
    """Return " (did you mean 'x'?)" for the name most like `word`, or "" where none is."""
    import difflib

    lower = {name.lower(): name for name in known}
    match = difflib.get_close_matches(word.lower(), list(lower), n=1, cutoff=0.5)
    return f" (did you mean '{lower[match[0]]}'?)" if match else ""
