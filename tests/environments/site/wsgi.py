"""The site for WSGI servers. SITE_START says where a worker is started, if here."""

import os

from django.core.wsgi import get_wsgi_application

from tests.environments.site.notes import note

application = get_wsgi_application()

if os.environ["SITE_START"] == "at import":
    from django_tasks.api import start

    start(threads=2)

if os.environ["SITE_START"] == "at import, among hooks":
    import uwsgi

    from django_tasks.api import start

    uwsgi.post_fork_hook = lambda: note("hook by hand")
    start(threads=2)

    from uwsgidecorators import postfork

    postfork(lambda: note("decorated hook"))

if os.environ["SITE_START"] == "after the fork":
    from uwsgidecorators import postfork

    from django_tasks.api import start

    postfork(lambda: start(threads=2))
