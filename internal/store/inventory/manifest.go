package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"firn/internal/store"
)

// manifest is an S3 Inventory's manifest.json (Amazon S3 user guide, "Inventory manifest").
type manifest struct {
	SourceBucket      string `json:"sourceBucket"`
	DestinationBucket string `json:"destinationBucket"`
	FileFormat        string `json:"fileFormat"`
	FileSchema        string `json:"fileSchema"`
	Files             []struct {
		Key  string `json:"key"`
		Size int64  `json:"size"`
		MD5  string `json:"MD5checksum"`
	} `json:"files"`
}

// inventoryParts reads the manifest. The files lie in the destination bucket, beside the manifest's scheme.
func inventoryParts(ctx context.Context, src store.Reader, location string) ([]Part, error) {
	data, err := src.Get(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("read inventory %s: %w", location, err)
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, faultf("read inventory %s: %v", location, err)
	}
	bucket := m.DestinationBucket[strings.LastIndexByte(m.DestinationBucket, ':')+1:] // an ARN
	if m.SourceBucket == "" || bucket == "" || m.FileFormat == "" {
		return nil, faultf("%s is no S3 Inventory manifest: it names no sourceBucket, destinationBucket or fileFormat", location)
	}
	base := Part{bucket: m.SourceBucket}
	switch strings.ToLower(m.FileFormat) {
	case "csv":
		base.format, base.packed = formatCSV, true
		for name := range strings.SplitSeq(m.FileSchema, ",") {
			base.columns = append(base.columns, columnName(name))
		}
	case "parquet":
		base.format = formatParquet
	default:
		return nil, faultf("inventory %s has files in %s, which are not read: configure it for Parquet or CSV", location, m.FileFormat)
	}
	if err := base.complete(); err != nil {
		return nil, fmt.Errorf("read inventory %s: %w", location, err)
	}
	root, err := inventoryRoot(location, bucket)
	if err != nil {
		return nil, err
	}
	parts := make([]Part, 0, len(m.Files))
	for _, f := range m.Files {
		p := base
		p.Location, p.sizeBytes, p.sum = root+f.Key, f.Size, strings.ToLower(f.MD5)
		p.packed = base.packed && strings.HasSuffix(f.Key, ".gz")
		parts = append(parts, p)
	}
	return parts, nil
}

// complete checks the columns of a CSV inventory before any of its files is read.
func (p *Part) complete() error {
	if p.format != formatCSV {
		return nil
	}
	_, err := p.fields(p.columns)
	return err
}

// inventoryRoot is the destination bucket in the manifest's own spelling. A manifest that was copied to this machine keeps the bucket's folder names
// behind its own.
func inventoryRoot(location, bucket string) (string, error) {
	loc, err := store.ParseLocation(location)
	if err != nil {
		return "", faultf("read inventory %s: %v", location, err)
	}
	if loc.Scheme == "file" || loc.Scheme == "" {
		before, _, found := strings.Cut(location, "/"+bucket+"/")
		if !found {
			return "", faultf("%s was taken out of its bucket: its files are looked for under a folder named %s", location, bucket)
		}
		return before + "/" + bucket + "/", nil
	}
	return loc.Scheme + "://" + bucket + "/", nil
}

// columnName spells an inventory's column as its Parquet files do: LastModifiedDate is last_modified_date.
func columnName(name string) string {
	var out strings.Builder
	for i, c := range strings.TrimSpace(name) {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				out.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		out.WriteRune(c)
	}
	return out.String()
}

// key decodes a key of a CSV inventory, which is encoded as in URLs.
func key(text string) (string, error) {
	decoded, err := url.QueryUnescape(text)
	if err != nil {
		return "", faultf("key %q is not encoded as in URLs: %v", text, err)
	}
	return decoded, nil
}
