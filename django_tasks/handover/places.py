"""Objects by their dotted paths."""

from importlib import import_module
from typing import Any

from django_tasks.exceptions import HandlerError, shortened
from django_tasks.sentences import sentence as _


def object_at(path: str) -> Any:
    """The object of a module, "shop.tasks.cancel_unpaid". Raises HandlerError if there is none.

    Not ``import_string``, which takes a submodule for a function of the same name in Django 6.2.
    """
    module, _dot, name = path.rpartition(".")
    if not module:
        raise HandlerError(_("a dotted path is wanted, not %(path)s", path=shortened(path)))
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise HandlerError(
            _("%(path)r cannot be imported: %(error)s", path=path, error=error)
        ) from error
    except AttributeError as error:
        raise HandlerError(_("%(module)r has no %(name)r", module=module, name=name)) from error
