package catalogs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/aws/aws-sdk-go-v2/service/glue/types"
	"github.com/aws/smithy-go"

	"firn/internal/maintenance"
)

// Properties of Glue catalogs, as in PyIceberg and Java. Credentials and region: glue.access-key-id, glue.secret-access-key,
// glue.session-token, glue.region, glue.profile-name, each also as client.….
const (
	PropGlueEndpoint    = "glue.endpoint"
	PropGlueID          = "glue.id"
	PropGlueSkipArchive = "glue.skip-archive"
)

// Parameters of a Glue table that make it an Iceberg table.
const (
	glueTableType        = "table_type"
	glueMetadataLocation = "metadata_location"
	gluePreviousLocation = "previous_metadata_location"
	glueIceberg          = "ICEBERG"
)

// Glue is the AWS Glue Data Catalog, through its own API. Its compare-and-swap is UpdateTable with the VersionId that GetTable returned.
type Glue struct {
	name        string
	client      *glue.Client
	catalogID   *string
	skipArchive bool
}

var (
	_ Catalog   = (*Glue)(nil)
	_ Registrar = (*Glue)(nil)
	_ Swapper   = (*Glue)(nil)
	_ Optimized = (*Glue)(nil)
)

// OpenGlue makes the client; nothing is sent yet.
func OpenGlue(ctx context.Context, name string, props map[string]string) (*Glue, error) {
	cfg, err := awsConfig(ctx, props, "glue.", "client.")
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, errors.New("read catalog properties: no AWS region for Glue: set AWS_REGION, a region in the profile, or the property glue.region")
	}
	c := &Glue{name: name, skipArchive: true}
	if id := props[PropGlueID]; id != "" {
		c.catalogID = &id
	}
	switch text := props[PropGlueSkipArchive]; {
	case strings.EqualFold(text, "false"):
		c.skipArchive = false
	case text != "" && !isTrue(text):
		return nil, fmt.Errorf("read catalog property %s: %q is neither true nor false", PropGlueSkipArchive, text)
	}
	c.client = glue.NewFromConfig(cfg, func(o *glue.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(restTimeout)
		if endpoint := firstOf(props, PropGlueEndpoint, "client.endpoint"); endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
	return c, nil
}

// Name is the configured name of the catalog.
func (c *Glue) Name() string { return c.name }

// Tables yields the Iceberg tables of a database, or of all.
func (c *Glue) Tables(ctx context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	return func(yield func(maintenance.TableID, error) bool) {
		if namespace != "" {
			c.tablesOf(ctx, namespace.String(), yield)
			return
		}
		pages := glue.NewGetDatabasesPaginator(c.client, &glue.GetDatabasesInput{CatalogId: c.catalogID})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(maintenance.TableID{}, fmt.Errorf("list databases of catalog %q: %w", c.name, glueReadError(err)))
				return
			}
			for _, db := range page.DatabaseList {
				if db.TargetDatabase != nil { // a link to a database of another account, whose owner maintains it
					continue
				}
				if !c.tablesOf(ctx, aws.ToString(db.Name), yield) {
					return
				}
			}
		}
	}
}

// tablesOf yields one database's tables and says whether to go on.
func (c *Glue) tablesOf(ctx context.Context, database string, yield func(maintenance.TableID, error) bool) bool {
	pages := glue.NewGetTablesPaginator(c.client, &glue.GetTablesInput{CatalogId: c.catalogID, DatabaseName: &database})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			yield(maintenance.TableID{}, fmt.Errorf("list tables of database %s in catalog %q: %w", database, c.name, glueReadError(err)))
			return false
		}
		for _, t := range page.TableList {
			if icebergFault(&t) != nil || t.TargetTable != nil {
				continue
			}
			if !yield(maintenance.TableID{Catalog: c.name, Namespace: maintenance.NewNamespace(database), Name: aws.ToString(t.Name)}, nil) {
				return false
			}
		}
	}
	return true
}

// icebergFault says why a Glue table is no Iceberg table that we can read; nil when it is one. Services write table_type in different cases.
func icebergFault(t *types.Table) error {
	switch kind, ok := t.Parameters[glueTableType]; {
	case !ok:
		return fmt.Errorf("%w: the Glue table has no parameter %s", ErrNotIceberg, glueTableType)
	case !strings.EqualFold(kind, glueIceberg):
		return fmt.Errorf("%w: parameter %s is %q", ErrNotIceberg, glueTableType, kind)
	case t.Parameters[glueMetadataLocation] == "":
		return fmt.Errorf("%w: the Glue table has no parameter %s", ErrNotIceberg, glueMetadataLocation)
	}
	return nil
}

// table reads a Glue table.
func (c *Glue) table(ctx context.Context, id maintenance.TableID) (*types.Table, error) {
	levels := id.Namespace.Levels()
	if len(levels) != 1 {
		return nil, fmt.Errorf("%w: a Glue database has one level, not %d", ErrNoSuchTable, len(levels))
	}
	out, err := c.client.GetTable(ctx, &glue.GetTableInput{CatalogId: c.catalogID, DatabaseName: &levels[0], Name: &id.Name})
	if api, is := errors.AsType[smithy.APIError](err); is && api.ErrorCode() == "EntityNotFoundException" {
		return nil, fmt.Errorf("%w in Glue of region %s: %w", ErrNoSuchTable, c.client.Options().Region, err)
	}
	if err != nil {
		return nil, glueReadError(err)
	}
	if out.Table == nil {
		return nil, errors.New("the answer of Glue has no table")
	}
	return out.Table, nil
}

// Load reads metadata location and VersionId together.
func (c *Glue) Load(ctx context.Context, id maintenance.TableID) (Pointer, error) {
	t, err := c.table(ctx, id)
	if err == nil {
		err = icebergFault(t)
	}
	if err != nil {
		return Pointer{}, fmt.Errorf("load %s: %w", id, err)
	}
	return Pointer{MetadataLocation: t.Parameters[glueMetadataLocation], Version: aws.ToString(t.VersionId), Properties: maps.Clone(t.Parameters)}, nil
}

// Swap reads the table again, since UpdateTable replaces everything and would otherwise wipe what others wrote beside the pointer (Description,
// Owner, columns), and sends it back with the new location and the base's VersionId. UpdateTable is tried once: after a lost answer a second
// try would meet our own success and call it a conflict.
func (c *Glue) Swap(ctx context.Context, id maintenance.TableID, base Pointer, metadataLocation string) error {
	if base.Version == "" {
		return fmt.Errorf("swap pointer of %s: %w: the base has no Glue VersionId; load it again", id, ErrRefused)
	}
	t, err := c.table(ctx, id)
	if err == nil {
		err = icebergFault(t)
	}
	if err != nil {
		return fmt.Errorf("swap pointer of %s: %w: nothing was sent: %w", id, ErrRefused, err)
	}
	current, version := t.Parameters[glueMetadataLocation], aws.ToString(t.VersionId)
	if current != base.MetadataLocation || version != base.Version {
		return fmt.Errorf("swap pointer of %s from %s (version %s), catalog has %s (version %s): %w", id, base.MetadataLocation, base.Version, current, version, ErrConflict)
	}
	input := tableInput(t)
	input.Parameters = maps.Clone(t.Parameters)
	input.Parameters[glueMetadataLocation], input.Parameters[gluePreviousLocation] = metadataLocation, base.MetadataLocation
	_, err = c.client.UpdateTable(ctx, &glue.UpdateTableInput{
		CatalogId: c.catalogID, DatabaseName: t.DatabaseName, TableInput: input, SkipArchive: &c.skipArchive, VersionId: t.VersionId,
	}, func(o *glue.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return fmt.Errorf("swap pointer of %s: %w", id, glueWriteError(err))
	}
	return nil
}

// tableInput rebuilds what UpdateTable takes from what GetTable gave, field by field.
func tableInput(t *types.Table) *types.TableInput {
	return &types.TableInput{
		Name: t.Name, Description: t.Description, FederatedTable: t.FederatedTable, LastAccessTime: t.LastAccessTime,
		LastAnalyzedTime: t.LastAnalyzedTime, Owner: t.Owner, Parameters: t.Parameters, PartitionKeys: t.PartitionKeys, Retention: t.Retention,
		StorageDescriptor: t.StorageDescriptor, TableType: t.TableType, TargetTable: t.TargetTable, ViewExpandedText: t.ViewExpandedText,
		ViewOriginalText: t.ViewOriginalText,
	}
}

// glueWriteError names what a failed write proves: a definite no of the service is ErrConflict or ErrRefused, all else leaves the state unknown
// (throttling included: AWS answers it with 400, and promises nothing).
func glueWriteError(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "ConcurrentModificationException":
		return fmt.Errorf("%w: %w", ErrConflict, err)
	case "AlreadyExistsException":
		return fmt.Errorf("%w: %w", ErrExists, err)
	case "EntityNotFoundException":
		return fmt.Errorf("%w: %w: %w", ErrRefused, ErrNoSuchTable, err)
	case "ResourceNumberLimitExceededException":
		return fmt.Errorf("%w: too many table versions are kept (leave %s at true, and delete old versions): %w", ErrRefused, PropGlueSkipArchive, err)
	}
	if slices.Contains([]string{
		"AccessDeniedException", "InvalidInputException", "ValidationException", "GlueEncryptionException", "UnrecognizedClientException",
		"InvalidSignatureException", "ExpiredTokenException", "MissingAuthenticationTokenException", "IncompleteSignatureException",
	}, api.ErrorCode()) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// glueReadError classifies an error of a read, after the SDK's own repetitions.
func glueReadError(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch {
		case api.ErrorCode() == "EntityNotFoundException":
			return fmt.Errorf("%w: %w", ErrNoSuchTable, err)
		case slices.Contains([]string{"AccessDeniedException", "AccessDenied", "GlueEncryptionException"}, api.ErrorCode()):
			return fmt.Errorf("%w: %w", ErrPermission, err)
		case api.ErrorFault() == smithy.FaultServer, strings.Contains(api.ErrorCode(), "Throttl"), api.ErrorCode() == "OperationTimeoutException",
			api.ErrorCode() == "ResourceNotReadyException":
			return fmt.Errorf("%w: %w", ErrTransient, err)
		}
		var response *awshttp.ResponseError
		if errors.As(err, &response) && response.HTTPStatusCode() >= 500 {
			return fmt.Errorf("%w: %w", ErrTransient, err)
		}
		return err
	}
	var sent *smithy.OperationError
	if errors.As(err, &sent) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", ErrTransient, err)
	}
	return err
}

// Register creates the database if needed and a table that points to the metadata file. Columns are not copied into Glue: readers of Iceberg
// take them from the metadata.
func (c *Glue) Register(ctx context.Context, id maintenance.TableID, metadataLocation string) error {
	if err := validRegistration(id, metadataLocation); err != nil {
		return err
	}
	levels := id.Namespace.Levels()
	if len(levels) != 1 {
		return fmt.Errorf("register %s: %w: a Glue database has one level, not %d", id, ErrRefused, len(levels))
	}
	once := func(o *glue.Options) { o.Retryer = aws.NopRetryer{} }
	location, _, _ := strings.Cut(metadataLocation, "/metadata/")
	input := &glue.CreateTableInput{CatalogId: c.catalogID, DatabaseName: &levels[0], TableInput: &types.TableInput{
		Name: &id.Name, TableType: aws.String("EXTERNAL_TABLE"), StorageDescriptor: &types.StorageDescriptor{Location: &location},
		Parameters: map[string]string{glueTableType: glueIceberg, glueMetadataLocation: metadataLocation},
	}}
	_, err := c.client.CreateTable(ctx, input, once)
	if _, ok := errors.AsType[*types.EntityNotFoundException](err); ok {
		_, err = c.client.CreateDatabase(ctx, &glue.CreateDatabaseInput{CatalogId: c.catalogID, DatabaseInput: &types.DatabaseInput{Name: &levels[0]}}, once)
		var exists *types.AlreadyExistsException
		if err == nil || errors.As(err, &exists) {
			_, err = c.client.CreateTable(ctx, input, once)
		}
	}
	if err != nil {
		return fmt.Errorf("register %s: %w", id, glueWriteError(err))
	}
	return nil
}

// Optimizers asks Glue for the table's three optimizers with GetTableOptimizer. One that the table does not have is EntityNotFoundException.
func (c *Glue) Optimizers(ctx context.Context, id maintenance.TableID) ([]string, error) {
	levels := id.Namespace.Levels()
	if len(levels) != 1 {
		return nil, nil
	}
	account := c.catalogID
	if account == nil {
		t, err := c.table(ctx, id) // the API wants the account's ID, which a table names
		if err != nil {
			return nil, err
		}
		account = t.CatalogId
	}
	var on []string
	for _, kind := range []types.TableOptimizerType{types.TableOptimizerTypeCompaction, types.TableOptimizerTypeRetention, types.TableOptimizerTypeOrphanFileDeletion} {
		out, err := c.client.GetTableOptimizer(ctx, &glue.GetTableOptimizerInput{CatalogId: account, DatabaseName: &levels[0], TableName: &id.Name, Type: kind})
		if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "EntityNotFoundException" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get %s optimizer of %s: %w", kind, id, glueReadError(err))
		}
		if o := out.TableOptimizer; o != nil && o.Configuration != nil && aws.ToBool(o.Configuration.Enabled) {
			on = append(on, string(kind))
		}
	}
	return on, nil
}
