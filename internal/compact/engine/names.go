package engine

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/twmb/murmur3"

	"firn/internal/store"
)

const (
	objectStorage     = "write.object-storage.enabled"
	objectPartitioned = "write.object-storage.partitioned-paths"
)

// fileName names output n of an attempt: no two attempts, groups or runs share a name.
func fileName(job Job, n int) string {
	return fmt.Sprintf("00000-%d-%s-%s-%05d.parquet", job.Group, job.Run, job.Attempt, n)
}

// DeleteLocation is where delete file n of an attempt goes, counted from 1, in a partition of the job's spec; schema has the spec's source columns,
// ext is the file's extension. Of the job only its names, its place and its spec are looked at.
func DeleteLocation(job Job, schema *iceberg.Schema, n int, partition map[int]any, ext string) string {
	name := strings.TrimSuffix(fileName(job, n), ".parquet") + "-deletes." + ext
	return location(job, partitionPath(job.Spec, schema, partition), name)
}

// OutputLocation is where output n of an attempt goes, counted from 1, in a partition of the job's spec.
func OutputLocation(job Job, n int, partition map[int]any) string {
	return location(job, partitionPath(job.Spec, job.Target.Layout.Schema, partition), fileName(job, n))
}

// location is where an output goes: under the data folder, in its partition's folder, and with the object-storage layout behind a hash of the
// name (twenty bits in the folders 4/4/4/8, as Java's ObjectStoreLocationProvider lays them).
func location(job Job, partition, name string) string {
	if job.Properties[objectStorage] != "true" {
		return store.Join(job.Location, path.Join(partition, name))
	}
	if job.Properties[objectPartitioned] == "false" {
		return store.Join(job.Location, entropy(name)+"-"+name)
	}
	full := path.Join(partition, name)
	return store.Join(job.Location, entropy(full), full)
}

// entropy spells the low twenty bits of the Murmur3 hash.
func entropy(name string) string {
	bits := fmt.Sprintf("%020b", murmur3.Sum32([]byte(name))&(1<<20-1))
	return bits[:4] + "/" + bits[4:8] + "/" + bits[8:12] + "/" + bits[12:]
}

// partitionPath spells a partition tuple as folders, name=value, both escaped.
func partitionPath(spec iceberg.PartitionSpec, schema *iceberg.Schema, partition map[int]any) string {
	var parts []string
	for i := range spec.NumFields() {
		f := spec.Field(i)
		var typ iceberg.Type = iceberg.PrimitiveTypes.String
		if source, ok := schema.FindTypeByID(f.SourceID()); ok {
			typ = f.Transform.ResultType(source)
		}
		text := "null"
		if v := partition[f.FieldID]; v != nil {
			text = f.Transform.ToHumanStrType(typ, v)
		}
		parts = append(parts, url.QueryEscape(f.Name)+"="+url.QueryEscape(text))
	}
	return strings.Join(parts, "/")
}
