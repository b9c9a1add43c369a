"""The plans of the golden corpus: random DataFrame operations, commands and catalog calls over names of all kinds."""

import random
from collections.abc import Iterator

from pyspark.sql.connect.proto import base_pb2, catalog_pb2, commands_pb2, expressions_pb2, relations_pb2

_TABLES = (
    *("t", "T1", "`t`", "dfs.tmp.t", "dfs.tmp.`T2`", "dfs.`f.csv`", "dfs.`*.csv`", "session.t", "system.session.t"),
    *("spark_catalog.default.t", "dfs.tmp.missing", "dfs.`missing.csv`", "nowhere.t", "`dfs.tmp`.t", " dfs.tmp.t ", ""),
    *("dfs.tmp", "dfs.tmp.`a/b`", "global_temp.t", "identifier('dfs.tmp.t')", "dfs.tmp.t.a"),
)
_COLUMNS = ("a", "t.a", "dfs.tmp.t.a", "dfs.tmp.`t`.`a b`", "dfs.`f.csv`.a", "`a.b`", "tmp.t.a", "dfs.tmp.t", "*")
_EXPRESSIONS = (
    *(
        "a + 1",
        "dfs.tmp.t.a + 1",
        "(select max(a) from dfs.tmp.t)",
        "exists (select 1 from dfs.`f.csv`)",
        "'dfs.tmp.t'",
    ),
    *("a as dfs", "struct(dfs.tmp.t.a)", "a in (select b from t)", "x -> x + dfs.tmp.t.a", "(select 1"),
)
_TEXTS = (
    *("select 1", "select * from dfs.tmp.t", "select * from dfs.`f.csv`", "with t as (select 1) select * from t"),
    *("drop table t", "create temporary table n as select 1", "insert into t select 1", "show tables in dfs"),
    *("select * from {df}, dfs.tmp.t", "create view v as select * from t", "execute immediate 'drop table t'"),
    *(
        "begin drop table t; end",
        "select dfs.tmp.t.a from dfs.tmp.t",
        "explain select * from dfs.`f.csv`",
        "use dfs.tmp",
    ),
)
_CALLS = (
    ("drop_temp_view", "view_name"),
    ("table_exists", "table_name"),
    ("list_columns", "table_name"),
    ("get_table", "table_name"),
    ("cache_table", "table_name"),
    ("refresh_table", "table_name"),
    ("list_tables", "db_name"),
    ("create_table", "table_name"),
    ("set_current_database", "db_name"),
    ("recover_partitions", "table_name"),
)
_FORMATS = ("parquet", "csv", "lodge", "LODGE", "jdbc", "")
_PATHS = ("dfs.`f.csv`", "/data/f.csv", "{directory}/tmp/x", "dfs.tmp.t", "file:///a/b", "*")


def random_plans(count: int, seed: int) -> Iterator[base_pb2.Plan]:
    """Yield plans. The same seed gives the same plans on each machine."""
    plans = _Plans(random.Random(seed))  # noqa: S311 - must be repeatable
    for _ in range(count):
        yield plans.plan()


class _Plans:
    def __init__(self, chosen: random.Random) -> None:
        self._chosen = chosen

    def plan(self) -> base_pb2.Plan:
        plan = base_pb2.Plan()
        if self._chosen.random() < 0.6:
            self._fill(plan.root, self._chosen.randrange(6))
        else:
            self._fill_command(plan.command)
        return plan

    def _fill(self, relation: relations_pb2.Relation, depth: int) -> None:
        chosen = self._chosen
        if depth <= 0:
            self._fill_leaf(relation)
            return
        match chosen.randrange(8):
            case 0:
                self._fill(relation.project.input, depth - 1)
                for _ in range(chosen.randrange(1, 3)):
                    self._fill_expression(relation.project.expressions.add())
            case 1:
                self._fill(relation.filter.input, depth - 1)
                self._fill_expression(relation.filter.condition)
            case 2:
                self._fill(relation.join.left, depth - 1)
                self._fill(relation.join.right, depth - 2)
                relation.join.using_columns.extend(chosen.sample(_COLUMNS, chosen.randrange(2)))
            case 3:
                self._fill(relation.subquery_alias.input, depth - 1)
                relation.subquery_alias.alias = chosen.choice(("dfs", "t", "DFS", "x"))
            case 4:
                self._fill(relation.with_relations.root, depth - 1)
                self._fill(relation.with_relations.references.add(), depth - 2)
            case 5:
                self._fill(relation.limit.input, depth - 1)
                relation.limit.limit = 3
            case 6:
                self._fill(relation.set_op.left_input, depth - 1)
                self._fill(relation.set_op.right_input, depth - 2)
            case _:
                self._fill_leaf(relation)

    def _fill_leaf(self, relation: relations_pb2.Relation) -> None:
        chosen = self._chosen
        match chosen.randrange(6):
            case 0 | 1:
                relation.read.named_table.unparsed_identifier = chosen.choice(_TABLES)
                relation.read.is_streaming = chosen.random() < 0.1
            case 2:
                source = relation.read.data_source
                source.format = chosen.choice(_FORMATS)
                source.paths.extend(chosen.sample(_PATHS, chosen.randrange(3)))
                if chosen.random() < 0.3:
                    source.options[chosen.choice(("path", "header", "dbtable"))] = chosen.choice(_PATHS)
            case 3:
                relation.sql.query = chosen.choice(_TEXTS)
            case 4:
                self._fill_call(relation.catalog)
            case _:
                relation.range.end = chosen.randrange(9)
                relation.range.step = 1

    def _fill_call(self, catalog: catalog_pb2.Catalog) -> None:
        name = self._chosen.choice(_TABLES)
        call, field = _CALLS[self._chosen.randrange(len(_CALLS))]
        setattr(getattr(catalog, call), field, name)

    def _fill_expression(self, expression: expressions_pb2.Expression) -> None:
        chosen = self._chosen
        match chosen.randrange(5):
            case 0:
                expression.unresolved_attribute.unparsed_identifier = chosen.choice(_COLUMNS)
            case 1:
                expression.expression_string.expression = chosen.choice(_EXPRESSIONS)
            case 2:
                expression.unresolved_star.unparsed_target = chosen.choice(_COLUMNS) + ".*"
            case 3:
                expression.unresolved_regex.col_name = chosen.choice(_COLUMNS)
            case _:
                self._fill_expression(expression.alias.expr)
                expression.alias.name.append(chosen.choice(("dfs", "a")))

    def _fill_command(self, command: commands_pb2.Command) -> None:
        chosen = self._chosen
        name = chosen.choice(_TABLES)
        match chosen.randrange(8):
            case 0:
                write = command.write_operation
                self._fill(write.input, 2)
                write.table.table_name = name
                write.table.save_method = chosen.randrange(1, 3)
                write.mode = chosen.randrange(1, 5)
            case 1:
                self._fill(command.write_operation.input, 2)
                command.write_operation.path = chosen.choice(_PATHS)
                command.write_operation.source = chosen.choice(_FORMATS)
            case 2:
                self._fill(command.write_operation_v2.input, 2)
                command.write_operation_v2.table_name = name
                command.write_operation_v2.mode = chosen.randrange(1, 7)
            case 3:
                self._fill(command.create_dataframe_view.input, 3)
                command.create_dataframe_view.name = name
                command.create_dataframe_view.is_global = chosen.random() < 0.3
                command.create_dataframe_view.replace = chosen.random() < 0.5
            case 4:
                command.merge_into_table_command.target_table_name = name
                self._fill(command.merge_into_table_command.source_table_plan, 2)
            case 5:
                self._fill(command.write_stream_operation_start.input, 1)
                command.write_stream_operation_start.table_name = name
            case 6:
                command.sql_command.sql = chosen.choice(_TEXTS)
            case _:
                self._fill(command.sql_command.input.with_relations.root, 0)
                self._fill(command.sql_command.input.with_relations.references.add(), 1)
