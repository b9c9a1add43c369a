"""Random SQL statements that name tables of a workspace in all places where Spark's grammar allows a name.

Each name occurs once in a statement, so that what two readers say about it can be compared. Most names are the same as
keywords, because Spark's keywords are not reserved.

Source: [spark-sql-grammar query], [spark-sql-grammar relation], [spark-sql-grammar statement].
"""

from random import Random

WORKSPACE = "dfs"
TABLE = "zq"
"""The beginning of the names of tables. A number follows."""

_NAMES = (
    *("a", "b", "`c d`", "anti", "as", "begin", "by", "cache", "changes", "cluster", "columns", "cross", "current"),
    *("declare", "desc", "describe", "distribute", "end", "except", "execute", "exists", "extended", "extract"),
    *("first", "for", "identifier", "if", "in", "intersect", "into", "join", "lateral", "left", "like", "limit"),
    *("merge", "minus", "natural", "not", "offset", "on", "order", "overlay", "overwrite", "partitions", "pivot"),
    *("qualify", "recursive", "semi", "set", "show", "sort", "stream", "substring", "table", "tablesample"),
    *("temporary", "timestamp", "to", "trim", "union", "unpivot", "update", "using", "values", "variable", "version"),
    *("view", "when", "window", "with", "year"),
)
_JOINS = (
    *(", ", ", ", " join ", " left join ", " right outer join ", " cross join ", " natural join "),
    *(" left anti join ", " left semi join ", " full outer join ", ", lateral ", " join lateral "),
)
_AFTER_RELATION = (
    *(" tablesample (10 percent)", " tablesample (5 rows)", " version as of 3", " timestamp as of '2020-01-01'"),
    *(" with ('a' = 'b')", " with (a = 1)", " pivot (sum(x) for p in (1, 2))", " unpivot (v for n in (a, b))"),
    *(" lateral view explode(x) lv as y", " lateral view outer explode(x) lv"),
)


class RandomStatement:
    """A random statement.

    Args:
        random: Makes the choices.

    Attributes:
        text: The statement.
        count: How many names it contains, from ``zq1`` on.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.count = 0
        self.text = self._statement()

    def _choose(self, *texts: str) -> str:
        return self._random.choice(texts)

    def _may(self, share: float, text: str) -> str:
        return text if self._random.random() < share else ""

    def _table(self) -> str:
        self.count += 1
        name = f"{TABLE}{self.count}"
        return self._choose(
            f"{WORKSPACE}.{name}",
            f"{WORKSPACE}.`{name}`",
            f"`{WORKSPACE}`.{name}",
            f"{WORKSPACE} . {name}",
            f"{WORKSPACE}./**/{name}",
        )

    def _column(self) -> str:
        if self._random.random() < 0.4:
            return self._choose("x", "a.b", "1", "'s from dfs.q'", "count(*)", "sum(x) over w")
        return self._table() + self._choose(".x", ".x.y", "")

    def _alias(self) -> str:
        if self._random.random() < 0.35:
            return ""
        return self._choose(" ", " as ") + self._random.choice(_NAMES) + self._may(0.2, "(n, m)")

    def _expression(self, depth: int) -> str:
        column = self._column()
        kinds = [
            *(column, column, column, f"extract(year from {column})", f"trim(both 'x' from {column})"),
            *(f"substring({column} from 1 for 2)", f"cast({column} as int)", f"overlay({column} placing 'x' from 2)"),
            *(f"x is distinct from {column}", f"case when x then {column} else 1 end", f"transform(x, y -> {column})"),
            *(f"sum({column}) over (partition by x order by y)", f"interval 2 day + {column}"),
        ]
        chosen = self._choose(*kinds)
        if not depth or self._random.random() < 0.8:
            return chosen
        query = self._query(depth - 1)
        return self._choose(f"({query})", f"exists ({query})", f"{column} in ({query})")

    def _relation(self, depth: int) -> str:
        kind = self._random.randrange(15)
        match kind:
            case 0 if depth:
                text = f"({self._query(depth - 1)})"
            case 1 if depth:
                text = f"lateral ({self._query(depth - 1)})"
            case 2 if depth:
                text = f"({self._relations(depth - 1)})"
            case 3:
                return f"values (1), (2) {self._choose(*_NAMES)}"  # without an alias, the next relation is a row
            case 14:
                return f"values interval 1 day, x = 1 and y, array(1)[0] v{self._choose('', '(n)')}"
            case 4:
                text = self._choose("range(3)", f"range({self._expression(0)})", "explode(array(1))")
            case 5:
                text = f"tvf(table({self._table()}))"
            case 6:
                text = self._choose(f"stream({self._table()})", f"stream {self._table()}")
            case 7:
                text = self._choose("t", "session.t", "`x y`.z", f"identifier('{self._table()}')")
            case _:
                text = self._table()
        return text + self._may(0.1, self._choose(*_AFTER_RELATION)) + self._alias()

    def _relations(self, depth: int) -> str:
        text = self._relation(depth)
        for _ in range(self._random.choice((0, 0, 1, 1, 2))):
            join = self._random.choice(_JOINS)
            is_lateral = join.endswith(" lateral ")
            # Spark takes a list of tables in brackets after LATERAL for a function call.
            text += join + (f"({self._query(max(depth - 1, 0))})" if is_lateral else self._relation(depth))
            if "join" in join and "cross" not in join and "natural" not in join:
                text += self._choose(f" on {self._expression(depth)}", " using (k)", " using (k, m)", "")
        return text

    def _query(self, depth: int) -> str:
        if depth and self._random.random() < 0.15:
            name = self._choose(*_NAMES, WORKSPACE) + self._may(0.2, "(n)")
            return f"with {name} as ({self._query(depth - 1)}) {self._query(depth - 1)}"
        if self._random.random() < 0.1:
            return self._other_query(depth)
        hint = self._may(0.1, f"/*+ broadcast({self._table()}) */ ")
        columns = ", ".join(
            self._expression(depth) + self._choose("", " as y", " z") for _ in range(self._choose_number())
        )
        text = f"select {hint}{self._choose('', 'distinct ')}{columns} from {self._relations(depth)}"
        text += self._may(0.4, f" where {self._expression(depth)}")
        text += self._may(
            0.2, f" group by {self._choose(self._expression(0), 'all', f'rollup({self._expression(0)})')}"
        )
        text += self._may(0.1, f" having {self._expression(depth)}")
        text += self._may(0.05, f" window w as (order by {self._expression(0)})")
        text += self._may(0.05, f" qualify {self._expression(0)}")
        if self._random.random() < 0.12:
            text += self._choose(" union ", " union all ", " intersect ", " except ", " minus ")
            text += self._query(max(depth - 1, 0))
        text += self._may(0.1, self._choose(" order by ", " sort by ", " cluster by ") + self._expression(0))
        return text + self._may(0.1, self._choose(" limit 1", " offset 2", " limit 1 offset 2"))

    def _list(self) -> str:
        """Return a list of expressions, some of which begin with brackets or with a word of joins."""
        shapes = ("{}", "{}", "({} + 1)", "(x + 1)", "left", "full")  # (x) could be the columns of an alias [select]
        return ", ".join(self._choose(*shapes).format(self._expression(0)) for _ in range(self._choose_number()))

    def _choose_number(self) -> int:
        return self._random.choice((1, 1, 2, 3))

    def _other_query(self, depth: int) -> str:
        return self._choose(
            f"table {self._table()}",
            f"values ({self._expression(depth)})",
            f"from {self._relations(depth)} select {self._list()}{self._may(0.5, ' where x')}",
            f"from {self._relations(depth)} |> where {self._expression(0)} |> join {self._relation(0)} |> select x",
            f"table {self._table()} |> aggregate sum({self._column()}) group by {self._column()}",
            f"from {self._relations(depth)} |> union all (select * from {self._table()})",
            f"from {self._table()} |> set x = {self._expression(0)} |> drop y |> as q |> where q.x",
        )

    def _statement(self) -> str:
        query = self._query(2)
        table, relation, expression = self._table(), self._relation(1), self._expression(1)
        return self._choose(
            *[query] * 12,
            f"explain extended {query}",
            f"create or replace temporary view v as {query}",
            f"create table u using parquet as {query}",
            f"cache lazy table v options ('storageLevel' = 'DISK_ONLY') as {query}",
            f"insert into {table} {query}",
            f"insert into {table} by name {query}",
            f"insert into {table} replace where {expression} {query}",
            f"insert overwrite table {table} (a, b) {query}",
            f"from {relation} insert into {table} select {self._list()} insert into u select {self._list()}",
            f"merge into {table} t using {relation} on {expression} when matched then update set x = {expression}",
            f"update {table} set x = {expression} where {self._expression(1)}",
            f"delete from {table} where {expression}",
            f"describe query {query}",
            f"set var x = ({query})",
            f"declare variable v int default ({query})",
            f"begin declare x int = 1; {query}; end",
            f"begin if exists({query}) then select 1 from {table}; end if; end",
            f"begin while {expression} do {query}; end while; end",
            f"begin for r as {query} do select r.x from {table}; end for; end",
        )
