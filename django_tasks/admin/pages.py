"""Lists in pages that begin after a row: each is one seek, however many rows come before it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.contrib.admin.options import ModelAdmin
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR, ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest

from django_tasks.admin import lists
from django_tasks.reads.words import Amount

# What a row is sorted by: whole numbers, its id last.
Key = tuple[int, ...]

IN_LANE = ("when", "id")  # the order of the rows of a lane
_LONGEST = 80  # characters of a place in a URL


class Anchor(NamedTuple):
    """A place between the rows of a list, as a URL has it: "after-7" or "before-7"."""

    is_after: bool
    key: Key

    def __str__(self) -> str:
        return "-".join(["after" if self.is_after else "before", *map(str, self.key)])


def place_of(text: str, length: int) -> Anchor | None:
    """Read the place of a URL; None, which is the first page, for what is none."""
    word, *numbers = text[:_LONGEST].split("-")
    if word not in ("after", "before") or len(numbers) != length:
        return None
    if not all(number.isascii() and number.isdecimal() for number in numbers):
        return None
    key = tuple(map(int, numbers))
    # A number that no column holds makes SQLite stumble.
    return Anchor(word == "after", key) if all(part < 2**63 for part in key) else None


class Page(NamedTuple):
    """The keys of one page, in order, and if there are others before and after."""

    keys: list[Key]
    has_before: bool = False
    has_after: bool = False


def page_of(keys: list[Key], place: Anchor | None, size: int, *, descending: bool) -> Page:
    """Cut a page out of all keys."""
    keys = sorted(keys, reverse=descending)
    start = 0
    if place is not None:
        passed = sum(1 for key in keys if key == place.key or (key > place.key) == descending)
        start = passed if place.is_after else max(0, passed - (place.key in keys) - size)
    if start >= len(keys):  # what came after has gone meanwhile
        start = 0
    page = keys[start : start + size]
    return Page(page, start > 0, start + size < len(keys))


def _cut(found: Sequence[int], place: Anchor | None, size: int) -> Page | None:
    """A page out of up to one id more than ``size`` behind a place, or before it, nearest first.

    None, where the first page is meant: nothing is there any more, or too little before the place.
    """
    forward = place is None or place.is_after
    is_more, page = len(found) > size, found[:size]
    if place is not None and (not page or (not forward and len(page) < size)):
        return None
    keys: list[Key] = [(each,) for each in (page if forward else page[::-1])]
    return Page(keys, place is not None and (forward or is_more), is_more or not forward)


def walked(rows: "QuerySet[Any]", place: Anchor | None, size: int) -> Page:
    """Look up a page of many rows along their ids, the last ones first."""
    forward = place is None or place.is_after
    ids = rows.order_by("-id" if forward else "id").values_list("id", flat=True)
    if place is not None:
        ids = ids.filter(**{"id__lt" if forward else "id__gt": place.key[0]})
    return _cut(list(ids[: size + 1]), place, size) or walked(rows, None, size)


def sought(rows: "QuerySet[Any]", columns: Sequence[str], place: Anchor | None, size: int) -> Page:
    """Look up a page of many rows in the order of an index: ``columns``, which tell rows apart.

    ``rows`` are those of one value of what stands before these columns in it. The place is that of
    a row; the first page, if it has gone. Each look is one range of the index: first the rest of
    the last but one column's value, then further values, and so from column to column.
    """
    place, edge = _edge(rows, columns, place)
    found = _from(rows, columns, edge, size + 1, forward=place is None or place.is_after)
    return _cut(found, place, size) or sought(rows, columns, None, size)


def _edge(
    rows: "QuerySet[Any]", columns: Sequence[str], place: Anchor | None
) -> tuple[Anchor | None, Any]:
    """A place and the columns of its row; None, if there is none, or the row has gone."""
    if place is None:
        return None, None
    everything = rows.model._base_manager.using(rows.db).filter(pk=place.key[-1])
    edge = everything.values_list(*columns).first()
    return (None, None) if edge is None else (place, edge)


def _from(
    rows: "QuerySet[Any]", columns: Sequence[str], edge: Any, most: int, *, forward: bool
) -> list[int]:
    if edge is not None:
        return _beyond(rows, columns, edge, most, forward=forward)
    order = columns if forward else [f"-{column}" for column in columns]
    return list(rows.order_by(*order).values_list("id", flat=True)[:most])


def _beyond(
    rows: "QuerySet[Any]", columns: Sequence[str], edge: Sequence[Any], most: int, *, forward: bool
) -> list[int]:
    lookup, sign = ("gt", "") if forward else ("lt", "-")
    found: list[int] = []
    for place in reversed(range(len(columns))):
        same = dict(zip(columns[:place], edge, strict=False))
        further = rows.filter(**same, **{f"{columns[place]}__{lookup}": edge[place]})
        order = [f"{sign}{column}" for column in columns[place:]]
        ids = further.order_by(*order).values_list("id", flat=True)
        found += ids[: most - len(found)]
        if len(found) >= most:
            break
    return found


def sought_in_lanes(
    rows: "QuerySet[Any]", lanes: Iterable[tuple[Any, ...]], place: Anchor | None, size: int
) -> Page:
    """Look up a page of many rows of lanes (status, queue, priority, code), one after the other.

    In the same order as ``sought`` by the claim index. For conditions about times: asked for all
    lanes at once, MariaDB sorted 700,000 rows.
    """
    columns = ("status", "queue", "priority", "biz_code")
    place, edge = _edge(rows, (*columns, *IN_LANE), place)
    forward = place is None or place.is_after
    found: list[int] = []
    for lane in sorted(set(lanes), reverse=not forward):
        if edge and (lane < edge[:4] if forward else lane > edge[:4]):
            continue
        within = rows.filter(**dict(zip(columns, lane, strict=True)))
        start = edge[4:] if edge and lane == edge[:4] else None
        found += _from(within, IN_LANE, start, size + 1 - len(found), forward=forward)
        if len(found) > size:
            break
    return _cut(found, place, size) or sought_in_lanes(rows, lanes, None, size)


class PagedList(ChangeList):
    """A list of the admin that counts no further than LIST_LIMIT, and has links to its neighbours.

    ``is_more``: there are more rows than were counted. ``of_pages``: what stands in the links to
    other pages alone. ``is_refused``: this stands in the place of a list that was refused, as
    Django's ERROR_FLAG in the URL says.
    """

    is_more = False
    is_refused = False
    of_pages: Mapping[str, str] = {}
    is_first = True
    previous_link = ""
    next_link = ""
    model_admin: "ModelAdmin[Any]"

    def get_results(self, request: HttpRequest) -> None:
        self.paginator = None
        self.show_full_result_count = False
        self.full_result_count = None
        self.can_show_all = self.multi_page = False
        self.is_refused = ERROR_FLAG in request.GET
        page = self._nothing() if self.is_refused else self.page(request.GET.get(PAGE_VAR, ""))
        self.is_first = PAGE_VAR not in request.GET
        self.result_list = self.rows_of([key[-1] for key in page.keys])
        self.show_admin_actions = bool(self.result_list)
        if page.has_before:
            self.previous_link = self._link(Anchor(False, page.keys[0]))
        if page.has_after:
            self.next_link = self._link(Anchor(True, page.keys[-1]))

    def _nothing(self) -> Page:
        """An empty page: all rows would be a trap, because the next action would change them."""
        self.count(0)
        return Page([])

    def page(self, text: str) -> Page:
        """The page at a place of the URL. Sets ``result_count`` and ``is_more``."""
        ids = list(self.queryset.order_by().values_list("id", flat=True)[: lists.LIST_LIMIT + 1])
        self.count(len(ids))
        place = place_of(text, 1)
        if self.is_more:
            return walked(self.queryset, place, self.list_per_page)
        keys: list[Key] = [(each,) for each in ids]
        return page_of(keys, place, self.list_per_page, descending=True)

    def choose(
        self,
        request: HttpRequest,
        query: dict[str, str],
        filters: Iterable[Any],
        kept: str | tuple[str, ...] = "_",
    ) -> None:
        """Show the filters with what a query says, and no others in the links to other pages.

        ``kept``: what else stays there begins with one of these letters.
        """
        others = {name: value for name, value in self.params.items() if name.startswith(kept)}
        self.params = others | query
        self.filter_params = {name: [value] for name, value in self.params.items()}
        given = {name: [value] for name, value in query.items()}
        self.filter_specs = [
            each(request, dict(given), self.model, self.model_admin) for each in filters
        ]
        self.has_filters = bool(self.filter_specs)
        self.has_active_filters = bool(set(query) - {"q"})
        self.clear_all_filters_qs = self.get_query_string(remove=sorted(query))

    def count(self, found: int) -> None:
        self.is_more = found > lists.LIST_LIMIT
        self.result_count = min(found, lists.LIST_LIMIT)

    def rows_of(self, ids: list[int]) -> list[Any]:
        """The rows of a page, in its order. One may have gone since its id was found."""
        raise NotImplementedError

    def count_words(self) -> str:
        """The number of rows, in words."""
        return str(Amount(self.result_count, self.is_more))

    def first_link(self) -> str:
        return self.get_query_string({**self.of_pages})

    def _link(self, place: Anchor) -> str:
        return self.get_query_string({**self.of_pages, PAGE_VAR: str(place)})


def in_order(ids: list[int], rows: Iterable[Any]) -> list[Any]:
    found = {row.pk: row for row in rows}
    return [found[each] for each in ids if each in found]
