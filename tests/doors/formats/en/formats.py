"""Input formats that lose something when they are written: see test_admin."""

DATE_INPUT_FORMATS = ["%d.%m.%y", "%d.%m.%Y"]
TIME_INPUT_FORMATS = ["%H h %M"]
