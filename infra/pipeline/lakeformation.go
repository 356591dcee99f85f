package pipeline

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslakeformation"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/settings"
	"firn/internal/contract"
)

// lakeFormation grants the functions' roles what Lake Formation wants beside IAM, when settings ask for it: on each pattern of tables, which is all of one
// database or one table. No role gets lakeformation:GetDataAccess: functions read files with their own rights, in hybrid mode.
func (p *Pipeline) lakeFormation() {
	if p.settings.LakeFormation != settings.LakeFormationGrant {
		return
	}
	seen := map[string]bool{}
	for i, pattern := range p.settings.Tables {
		database, table := names(pattern)
		for _, function := range contract.Functions() {
			rights := tableRights(function)
			if len(rights) == 0 {
				continue
			}
			on := &awslakeformation.CfnPrincipalPermissions_TableResourceProperty{CatalogId: jsii.String(p.glueCatalog()), DatabaseName: jsii.String(database)}
			if table == "*" {
				on.TableWildcard = map[string]any{}
			} else {
				on.Name = jsii.String(table)
			}
			p.grant(function, "Tables"+strconv.Itoa(i+1), rights, &awslakeformation.CfnPrincipalPermissions_ResourceProperty{Table: on})
			if !listsDatabases(function) || seen[function+"/"+database] {
				continue
			}
			seen[function+"/"+database] = true
			p.grant(function, "Database"+strconv.Itoa(i+1), []string{"DESCRIBE"}, &awslakeformation.CfnPrincipalPermissions_ResourceProperty{
				Database: &awslakeformation.CfnPrincipalPermissions_DatabaseResourceProperty{CatalogId: jsii.String(p.glueCatalog()), Name: jsii.String(database)},
			})
		}
	}
}

// tableRights are what a function needs on tables: schedule lists them, commit alters them, none changes rows through Lake Formation.
func tableRights(function string) []string {
	switch function {
	case contract.FunctionSchedule:
		return []string{"DESCRIBE"}
	case contract.FunctionEvaluate, contract.FunctionPlan, contract.FunctionSweep:
		return []string{"DESCRIBE", "SELECT"}
	case contract.FunctionCommit:
		return []string{"ALTER", "DESCRIBE", "SELECT"}
	}
	return nil
}

// listsDatabases reports a function that walks the catalog.
func listsDatabases(function string) bool {
	return function == contract.FunctionEvaluate || function == contract.FunctionSchedule || function == contract.FunctionSweep
}

func (p *Pipeline) grant(function, id string, rights []string, on *awslakeformation.CfnPrincipalPermissions_ResourceProperty) {
	awslakeformation.NewCfnPrincipalPermissions(p.Construct, jsii.String(Title(function)+id), &awslakeformation.CfnPrincipalPermissionsProps{
		Catalog:   jsii.String(p.glueCatalog()),
		Principal: &awslakeformation.CfnPrincipalPermissions_DataLakePrincipalProperty{DataLakePrincipalIdentifier: p.Functions[function].Role.RoleArn()},
		Resource:  on, Permissions: jsii.Strings(rights...), PermissionsWithGrantOption: &[]*string{},
	})
}

func (p *Pipeline) glueCatalog() string { return powers{settings: p.settings}.account() }
