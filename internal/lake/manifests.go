package lake

import (
	"github.com/apache/iceberg-go"

	"firn/internal/decide"
)

// ManifestsTable describes the table for the arguments of rewrite_manifests.
func (t *Table) ManifestsTable() decide.ManifestsTable {
	out := decide.ManifestsTable{
		Properties: t.Metadata.Properties(), CurrentSpecID: t.Metadata.DefaultPartitionSpec(), Fields: map[int][]string{},
	}
	for _, spec := range t.Metadata.PartitionSpecs() {
		names := []string{}
		for _, field := range spec.Fields() {
			names = append(names, field.Name)
		}
		out.Fields[spec.ID()] = names
	}
	return out
}

// PlannedManifests are manifests in the terms of decide.Manifests, in their order.
func PlannedManifests(manifests []iceberg.ManifestFile) []decide.Manifest {
	out := make([]decide.Manifest, len(manifests))
	for i, m := range manifests {
		out[i] = decide.Manifest{
			Location: m.FilePath(), LengthBytes: m.Length(), SpecID: int(m.PartitionSpecID()),
			Deletes: m.ManifestContent() == iceberg.ManifestContentDeletes,
		}
	}
	return out
}
