// Package reach says which objects a table's metadata reaches, and holds such sets outside of memory. A set is a number of sorted runs in the
// work location; sets are merged and subtracted by streaming them, so that a million objects need no more memory than a thousand.
//
// What is reachable (Spark's valid set of remove_orphan_files): the current metadata file and those in its log, the version hint, statistics and
// partition statistics files, the manifest list of every snapshot that the metadata lists (referenced or not), every manifest in these lists,
// and the content files that are live (added or existing) in any of these manifests. An entry with status DELETED reaches nothing: a file that a
// later snapshot deleted is still live in the manifests of the older one.
//
// The package never guesses: a list, a manifest or an entry that cannot be read is an error, and the caller then deletes nothing.
package reach
