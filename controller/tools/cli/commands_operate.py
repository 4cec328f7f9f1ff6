"""The commands that operate a controller, and those that keep late rows: ``command_table`` reads them."""

from __future__ import annotations

OPERATE = """
jar -> spark_programs:jar plain
  Print the path of Tidemark's jar for the installed Spark.

  It is for `spark-submit --jars "$(tidemark jar)"`: with it a job compiles nothing when it starts.

serve -> serve:serve plain
  Run the controller: the REST API, the decision loop and the metrics, in one process.
  - --host: Address to listen on (TIDEMARK_HOST).
  - --port 0..65535: Port to listen on; 0 takes a free one (TIDEMARK_PORT).
  + DATABASE CONFIG

mcp -> mcp_server:mcp plain extra=mcp
  Serve a controller to agents over standard input and output (MCP); they can read, and change nothing.

  Give it the token of a viewer.
  + URL TOKEN_FILE

login -> login:login answer
  Sign in at the issuer that the controller trusts, in a browser of any machine.

  Later commands with the same --url send the token and renew it. TIDEMARK_TOKEN and --token-file go before it.
  + URL
  - --issuer: Name of the issuer, where the controller trusts several.

logout -> login:logout answer
  Sign out: forget the token of tidemark login, and end it at its issuer.
  + URL

token create -> token:create answer
  Create a token and print it.

  Standard output holds the token alone. It is shown only once.
  - name ?: Name of the holder. Default: the name of the role.
  + ROLE
  - --job *: Pattern of the jobs that it is valid for, such as 'shop-*'; may be repeated. Default: all.
  - --expires: How long it is valid, such as '90 days'. Default: without end.
  + URL TOKEN_FILE
  - --database-url: Work in the store itself, without a controller: for the first token. Default: the store that
      TIDEMARK_DATABASE_URL or TIDEMARK_CONFIG names, if neither an address nor a token is given.

token mint -> token:mint plain
  Print a new token that no store knows yet.

  It is for a file of the folder TIDEMARK_FIRST_TOKENS, whose tokens a new store begins with.
  + ROLE

token list -> token:list_tokens
  List the tokens, expired and revoked ones too.

token rotate -> token:rotate
  Create a second token of the same name, role, jobs and lifetime.

  The first stays valid until it is revoked.
  + HOLDER

token revoke -> token:revoke
  Revoke a token.

  When two of the name are valid, it is the one that was created first, unless --id names the other.
  + HOLDER
  - --id token_id 1..: Number of the token, when the name has several.

settings -> store:settings answer
  Show the settings in force and where each comes from; passwords are masked.
  + CONFIG

backup -> store:backup plain
  Write a whole and checked copy of a SQLite store to a file, while the controller runs.
  - file path: File to write; it must not exist.
  + DATABASE CONFIG

restore -> store:restore plain
  Replace the store by a backup, and give it a new epoch; every controller must be stopped.

  A backup that is not whole, or a store that is in use, is refused, and the store stays as it was. Without a file it
  is for a store that was put there by other means: pg_restore, a snapshot of its disk. What jobs and people hold of
  another history is then out of date: every job is answered in full, and a write that rests on an older reading is
  rejected.
  - file path ?: What tidemark backup wrote; without it, the store is taken as it is.
  + DATABASE CONFIG

adopt -> streams:adopt
  Let a stream that began anew go on as the one that it was, with its SLO, approvals and history.
  + JOB STREAM
  - former: Name of the stream that it was.
  + NEEDED_REASON DRY_RUN

forget -> streams:forget
  Delete a stream with all of its data; it cannot be undone.
  + JOB STREAM NEEDED_REASON
  - --while-reporting flag: Delete it although its job still reports; it begins anew with the next report.
  + DRY_RUN

spark-conf -> fleet_conf:spark_conf plain
  Print the conf that lets every job of a fleet be watched, with no line of a job changed.

  `tidemark doctor --conf FILE` checks a spark-defaults.conf where it is to be used.
  - --for form defaults|submit|operator|databricks = defaults: defaults: spark-defaults.conf; submit: options of
      spark-submit; operator: a SparkApplication of the Spark operator; databricks: a cluster.
  - --jar: Tidemark's jar, as the driver finds it. Default: the one that is installed here.
  - --python: The driver's Python that has Tidemark. Default: the one that runs this command.
  - --conf <KEY=VALUE> *: More conf of Tidemark; may be repeated.
  + URL TOKEN_FILE

late catch-up -> spark_programs:catch_up plain extra=spark
  Read the late rows of all committed batches that are not kept yet, from the checkpoint alone.

  The job must not run with late=side(...) on the same folder meanwhile.
  + CHECKPOINT
  - --into <FOLDER> !: Folder for the late rows.
  - --parse <MODULE:FUNCTION> !: Makes rows of the source's columns, as in the job.
  + OPERATOR
  - --event-time <COLUMN> !: The event-time column.
  - --format source_format !: Format of the source: kafka, json, parquet and so on.
  - --option options <NAME=VALUE> *: An option of the source's reader; may be repeated.
  - --schema <DDL>: Columns of a file source, such as 'id long, ts timestamp'.
  - --source <NAME>: The source by its place in the plan or its name, if there are several.
  - --partition <COLUMN>: The column that names a row's partition.
  - --dimension <COLUMN>: Count rows and losses by the values of this column; the job's next start sends the counts.
  - --batches 1.. = 20: Maximum number of batches of one read.
  - --future-rows clamp|aside|keep: How the job treated future-dated rows, if it ran in Live without keeping late
      rows.
  - --future-allowance = 1 minute: As in the job.
  - --arrival-time <COLUMN>: As in the job.
  - --arrival-type <COLUMN>: timestampType, if rows have it.
  + CONF

reconcile -> spark_programs:reconcile plain extra=spark
  Put late rows into the finished windows that they belong to.

  Neither folder is changed: the windows that differ are written to another one, with the values they would have had
  no row been late.
  - side: The folder with the late rows, as side(...) or `tidemark late catch-up` writes it.
  - --windows <FOLDER> !: The finished windows, as the query wrote them.
  + OPERATOR
  - --aggregate <MODULE:FUNCTION> !: Makes windows of late rows, which have a column `window`; with the finished
      windows' columns.
  - --combine <COLUMN=HOW> * !: How an aggregated column of both parts is combined: sum, min or max; all other columns
      are keys. May be repeated.
  - --into <FOLDER> !: Folder for the windows that late rows belong to.
  - --format windows_format = parquet: Format of the finished windows.
  + CONF
"""
