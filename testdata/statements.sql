-- Statements as they stand in guides, scripts and notebooks for Iceberg tables: for firn sql, on a table db.sample with the columns id, data, category
-- and ts. The catalog is whatever the guide calls it. 1234 and 4567 stand for two of the table's snapshots, 1234 the older one.
-- A blank line parts statements. Those of the first section run; those of the second are refused with what stands behind "answer:".

-- Section: statements that run

-- rewrite_data_files

CALL catalog_name.system.rewrite_data_files('db.sample');

CALL catalog_name.system.rewrite_data_files(table => 'db.sample', strategy => 'sort', sort_order => 'id DESC NULLS LAST,category ASC NULLS FIRST');

CALL catalog_name.system.rewrite_data_files(table => 'db.sample', strategy => 'sort', sort_order => 'zorder(id,category)');

CALL catalog_name.system.rewrite_data_files(table => 'db.sample', sort_order => 'hilbert(id, category)');

CALL catalog_name.system.rewrite_data_files(table => 'db.sample', options => map('min-input-files','2'));

CALL catalog_name.system.rewrite_data_files(table => 'db.sample', options => map('min-input-files', '2', 'remove-dangling-deletes', 'true'));

CALL catalog_name.system.rewrite_data_files(table => 'db.sample', where => 'id = 3 and category = "foo"');

CALL catalog_name.system.rewrite_data_files('db.sample', 'sort', 'zorder(id, data)', map('rewrite-all', 'true'), 'id > 1');

CALL catalog_name.system.rewrite_data_files(table => 'db.sample', options => map('output-spec-id', '0', 'rewrite-all', 'true'));

CALL glue_catalog.system.rewrite_data_files(
  table => 'glue_catalog.db.sample',
  strategy => 'binpack',
  options => map(
    'target-file-size-bytes', '134217728',
    'min-file-size-bytes', '100663296',
    'max-file-size-bytes', '241591910',
    'max-concurrent-file-group-rewrites', '10',
    'partial-progress.enabled', 'true',
    'partial-progress.max-commits', '10',
    'max-file-group-size-bytes', '10737418240',
    'rewrite-job-order', 'bytes-asc',
    'delete-file-threshold', '2',
    'use-starting-sequence-number', 'false'
  )
);

CALL system.rewrite_data_files(table => "db.sample", options => map('target-file-size-bytes', 134217728, 'rewrite-all', true));

ALTER TABLE `my-catalog`.db.sample WRITE ORDERED BY category, id;
CALL `my-catalog`.system.rewrite_data_files(`table` => '`db`.`sample`', strategy => 'sort');

CALL spark_catalog.system.rewrite_data_files(
    table      => 'db.sample',
    strategy   => 'sort',
    sort_order => 'category ASC NULLS LAST, ts DESC NULLS FIRST',
    where      => 'ts >= TIMESTAMP \'2026-10-01 00:00:00\' AND ts < TIMESTAMP \'2027-01-01 00:00:00\'',
    options    => map('compression-factor', '1.5', 'shuffle-partitions-per-file', '2')
);

CALL prod.system.rewrite_data_files(table => 'prod.db.sample', where => 'category IN (''foo'', ''bar'') OR data LIKE ''a%''');

CALL prod.system.rewrite_data_files(table => 'db.sample', where => " (1 = 1) ", options => map('min-input-files', '2'));

CALL prod.system.rewrite_data_files(table => 'db.sample', where => '1=1');

CALL prod.system.rewrite_data_files(table => 'db.sample', where => 'category IS NOT NULL AND NOT (id BETWEEN 5 AND 7)', options => map('max-files-to-rewrite', '3'));

CALL prod.system.rewrite_data_files(table => 'db.sample', where => 'ts >= timestamp\'2026-11-01\'', options => map('delete-ratio-threshold', 0.1D));

-- rewrite_position_delete_files

CALL catalog_name.system.rewrite_position_delete_files('db.sample');

CALL catalog_name.system.rewrite_position_delete_files(table => 'db.sample', options => map('rewrite-all', 'true'));

CALL catalog_name.system.rewrite_position_delete_files(table => 'db.sample', options => map('min-input-files','2'), where => 'category = "foo"');

-- rewrite_manifests

CALL catalog_name.system.rewrite_manifests('db.sample');

CALL catalog_name.system.rewrite_manifests('db.sample', false);

CALL catalog_name.system.rewrite_manifests(table => 'db.sample', use_caching => true);

CALL catalog_name.system.rewrite_manifests(table => 'db.sample', spec_id => 0);

CALL catalog_name.system.rewrite_manifests(table => 'db.sample', sort_by => array('category'));

-- expire_snapshots

CALL hive_prod.system.expire_snapshots('db.sample', TIMESTAMP '2021-06-30 00:00:00.000', 100);

CALL hive_prod.system.expire_snapshots(table => 'db.sample', snapshot_ids => ARRAY(1234));

CALL local.system.expire_snapshots('local.db.sample');

CALL iceberg.system.expire_snapshots(
  table => 'db.sample',
  older_than => timestamp'2026-12-01 00:00:00',
  retain_last => 1, -- the newest stays
  max_concurrent_deletes => 4,
  stream_results => true,
  clean_expired_metadata => true
);

CALL nessie.system.expire_snapshots('db.sample', current_timestamp(), 1);

call hive_prod.system.expire_snapshots(table => 'db.sample', older_than => now() - INTERVAL 3 DAYS, retain_last => 3);

CALL lake.system.expire_snapshots(table => 'db.sample', older_than => current_timestamp() - INTERVAL '7' DAY);

CALL lake.system.expire_snapshots(table => 'db.sample', older_than => now() - INTERVAL 90 MINUTES);

CALL lake.system.expire_snapshots(table => 'db.sample', older_than => date_sub(current_date(), 5), retain_last => 10);

CALL lake.system.expire_snapshots(table => 'db.sample', older_than => CAST('2026-01-01' AS TIMESTAMP));

CALL lake.system.expire_snapshots(table => 'db.sample', older_than => TO_TIMESTAMP('2026-01-01 00:00:00'), RETAIN_LAST => 7);

CALL lake.system.expire_snapshots(table => 'db.sample', older_than => DATE '2026-01-01');

CALL lake.system.expire_snapshots(table => 'db.sample', older_than => '2026-01-01 00:00:00.000', stream_results => 'true');

-- remove_orphan_files

CALL catalog_name.system.remove_orphan_files(table => 'db.sample', dry_run => true);

CALL catalog_name.system.remove_orphan_files(table => 'db.sample', location => 's3://world/db/sample/data');

CALL catalog_name.system.remove_orphan_files('db.sample');

CALL catalog_name.system.remove_orphan_files(table => 'db.sample', older_than => TIMESTAMP '2023-01-01 00:00:00', max_concurrent_deletes => 8);

CALL catalog_name.system.remove_orphan_files(table => 'db.sample', equal_schemes => map('s3a,s3n', 's3'));

CALL catalog_name.system.remove_orphan_files(table => 'db.sample', equal_authorities => map('servicename1,servicename2', 'servicename1'));

CALL catalog_name.system.remove_orphan_files(table => 'db.sample', prefix_mismatch_mode => 'IGNORE', prefix_listing => true, stream_results => false);

-- several in one text

ALTER TABLE prod.db.sample SET TBLPROPERTIES ('write.target-file-size-bytes'='268435456');
/* nightly */ CALL prod.system.rewrite_data_files('db.sample'); CALL prod.system.rewrite_manifests('db.sample')
;;
CALL prod.system.expire_snapshots(table => 'db.sample', retain_last => 5) -- and that is all

-- table properties

ALTER TABLE prod.db.sample SET TBLPROPERTIES (
    'read.split.target-size'='268435456'
);

ALTER TABLE prod.db.sample SET TBLPROPERTIES ('comment' = 'It''s a table comment.');

ALTER TABLE prod.db.sample SET TBLPROPERTIES (
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '20',
  'history.expire.max-snapshot-age-ms' = '432000000',
  'history.expire.min-snapshots-to-keep' = '3',
  'history.expire.max-ref-age-ms' = '31536000000',
  'commit.retry.num-retries' = '10',
  'commit.manifest.target-size-bytes' = '8388608',
  'commit.manifest.min-count-to-merge' = '100',
  'commit.manifest-merge.enabled' = 'true',
  'write.delete.mode' = 'merge-on-read',
  'write.update.mode' = 'merge-on-read',
  'write.merge.mode' = 'merge-on-read',
  'write.delete.granularity' = 'file',
  'write.parquet.compression-codec' = 'zstd',
  'write.parquet.compression-level' = '3',
  'write.parquet.row-group-size-bytes' = '134217728',
  'write.parquet.bloom-filter-enabled.column.id' = 'true',
  'write.distribution-mode' = 'hash',
  'write.object-storage.enabled' = 'true',
  'gc.enabled' = 'true',
  'vacuum_max_snapshot_age_seconds' = '432000',
  'optimize_rewrite_data_file_threshold' = '5'
);

ALTER TABLE db.sample SET TBLPROPERTIES ('format-version' = '3');

ALTER TABLE prod.db.sample SET TBLPROPERTIES ("write.fanout.enabled" = true, write.target-file-size-bytes = 536870912);

ALTER TABLE prod.db.sample UNSET TBLPROPERTIES ('read.split.target-size');

ALTER TABLE prod.db.sample UNSET TBLPROPERTIES IF EXISTS ('nosuch', 'write.spark.accept-any-schema');

-- write order and distribution

ALTER TABLE prod.db.sample WRITE ORDERED BY category, id

ALTER TABLE prod.db.sample WRITE ORDERED BY category ASC, id DESC

ALTER TABLE prod.db.sample WRITE ORDERED BY category ASC NULLS LAST, id DESC NULLS FIRST;

ALTER TABLE prod.db.sample WRITE ORDERED BY bucket(16, id), days(ts), truncate(data, 4);

ALTER TABLE prod.db.sample WRITE LOCALLY ORDERED BY category, id;

ALTER TABLE prod.db.sample WRITE UNORDERED;

ALTER TABLE prod.db.sample WRITE DISTRIBUTED BY PARTITION;

ALTER TABLE prod.db.sample WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY category, id;

-- identifier fields

ALTER TABLE prod.db.sample SET IDENTIFIER FIELDS id
-- single column

ALTER TABLE prod.db.sample SET IDENTIFIER FIELDS id, category;

ALTER TABLE prod.db.sample SET IDENTIFIER FIELDS id, category; ALTER TABLE prod.db.sample DROP IDENTIFIER FIELDS category;

-- branches and tags

ALTER TABLE prod.db.sample CREATE BRANCH `audit-branch`;

ALTER TABLE prod.db.sample CREATE BRANCH IF NOT EXISTS `audit-branch`;

ALTER TABLE prod.db.sample CREATE OR REPLACE BRANCH `audit-branch`;

ALTER TABLE prod.db.sample CREATE BRANCH `audit-branch`
AS OF VERSION 1234

ALTER TABLE prod.db.sample CREATE BRANCH `audit-branch`
AS OF VERSION 1234 RETAIN 30 DAYS
WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS;
ALTER TABLE prod.db.sample REPLACE BRANCH `audit-branch`
AS OF VERSION 4567 RETAIN 60 DAYS;
ALTER TABLE prod.db.sample DROP BRANCH `audit-branch`;

ALTER TABLE prod.db.sample CREATE BRANCH dev RETAIN 7 DAYS WITH SNAPSHOT RETENTION 12 HOURS;
CALL prod.system.rewrite_data_files(table => 'db.sample', branch => 'dev', options => map('min-input-files', '2'));

ALTER TABLE prod.db.sample CREATE TAG `historical-tag`;

ALTER TABLE prod.db.sample CREATE TAG IF NOT EXISTS `historical-tag`;

ALTER TABLE prod.db.sample CREATE OR REPLACE TAG `historical-tag`;

ALTER TABLE prod.db.sample CREATE TAG `historical-tag`
AS OF VERSION 1234 RETAIN 365 DAYS;
ALTER TABLE prod.db.sample REPLACE TAG `historical-tag`
AS OF VERSION 4567 RETAIN 60 DAYS;
ALTER TABLE prod.db.sample DROP TAG `historical-tag`;

ALTER TABLE prod.db.sample DROP TAG IF EXISTS EOY_2025;

-- Section: statements that are answered with the command that does it

-- answer: firn inspect --table db.sample --view files
SELECT file_path, record_count, file_size_in_bytes FROM db.sample.files;

-- answer: firn inspect --table prod.db.sample --view snapshots
SELECT committed_at, snapshot_id, operation, summary FROM prod.db.sample.snapshots ORDER BY committed_at DESC LIMIT 10;

-- answer: firn inspect --table prod.db.sample --view history
SELECT h.made_current_at, s.operation, h.snapshot_id, h.is_current_ancestor, s.summary['spark.app.id']
FROM prod.db.sample.history h JOIN prod.db.sample.snapshots s ON h.snapshot_id = s.snapshot_id ORDER BY made_current_at;

-- answer: firn inspect --table prod.db.sample --view metadata_log_entries
SELECT * from prod.db.sample.metadata_log_entries;

-- answer: firn inspect --table prod.db.sample --view all_data_files
SELECT * FROM prod.db.sample.all_data_files;

-- answer: firn inspect --table db.sample --view partitions
SELECT partition, file_count, record_count FROM (SELECT * FROM db.sample.partitions) WHERE file_count > 100;

-- answer: CALL system.rewrite_data_files(table => 'db.sample', where => 'category = ''foo''')
OPTIMIZE db.sample REWRITE DATA USING BIN_PACK WHERE category = 'foo';

-- answer: CALL system.rewrite_data_files(table => 'db.sample')
OPTIMIZE TABLE db.sample;

-- answer: CALL system.rewrite_data_files(table => 'db.sample', sort_order => 'zorder(id, category)')
OPTIMIZE db.sample ZORDER BY (id, category);

-- answer: CALL system.rewrite_manifests(table => 'db.sample')
OPTIMIZE TABLE db.sample REWRITE MANIFESTS;

-- answer: CALL system.expire_snapshots(table => 'db.sample')
VACUUM db.sample;

-- answer: CALL system.rewrite_data_files(table => 'iceberg.db.sample', where => 'id > 5')
ALTER TABLE iceberg.db.sample EXECUTE optimize(file_size_threshold => '100MB') WHERE id > 5;

-- answer: CALL system.expire_snapshots(table => 'iceberg.db.sample')
ALTER TABLE iceberg.db.sample EXECUTE expire_snapshots(retention_threshold => '7d');

-- answer: CALL system.remove_orphan_files(table => 'iceberg.db.sample')
ALTER TABLE iceberg.db.sample EXECUTE remove_orphan_files(retention_threshold => '7d');

-- answer: CALL system.rewrite_manifests(table => 'iceberg.db.sample')
ALTER TABLE iceberg.db.sample EXECUTE optimize_manifests;

-- answer: belong to the engine that writes it
ALTER TABLE prod.db.sample ADD COLUMNS (new_column string comment 'new_column docs');

-- answer: belong to the engine that writes it
ALTER TABLE prod.db.sample ADD PARTITION FIELD bucket(16, id) AS shard;

-- answer: belong to the engine that writes it
ALTER TABLE prod.db.sample REPLACE PARTITION FIELD ts_day WITH day(ts);

-- answer: belong to the engine that writes it
ALTER TABLE prod.db.sample DROP PARTITION FIELD category;

-- answer: belong to the engine that writes it
ALTER TABLE prod.db.sample DROP COLUMN data;

-- answer: belong to the engine that writes it
ALTER TABLE prod.db.sample RENAME COLUMN data TO payload;

-- answer: belong to the engine that writes it
ALTER TABLE prod.db.sample ALTER COLUMN id TYPE bigint;

-- answer: belong to the engine that writes it
ALTER TABLE prod.db.sample RENAME TO prod.db.new_name;

-- answer: moves rows, which is the writing engine's work
CALL catalog_name.system.rollback_to_snapshot('db.sample', 1234);

-- answer: moves rows, which is the writing engine's work
CALL catalog_name.system.rollback_to_timestamp('db.sample', TIMESTAMP '2021-06-30 00:00:00.000');

-- answer: moves rows, which is the writing engine's work
CALL catalog_name.system.set_current_snapshot(table => 'db.sample', ref => 's1');

-- answer: moves rows, which is the writing engine's work
CALL catalog_name.system.cherrypick_snapshot(snapshot_id => 1234, table => 'db.sample');

-- answer: moves rows, which is the writing engine's work
CALL catalog_name.system.fast_forward('db.sample', 'main', 'audit-branch');

-- answer: moves rows, which is the writing engine's work
CALL catalog_name.system.publish_changes('db.sample', 'wap_id_1');

-- answer: firn inspect --table NS.T --view history
CALL catalog_name.system.ancestors_of('db.sample');

-- answer: firn register
CALL catalog_name.system.register_table(table => 'db.sample', metadata_file => 's3://world/db/sample/metadata/v1.metadata.json');
