"""The files of ``deploy/``, used by what they are for, or by what plays its part."""
