package template

import (
	"errors"
	"fmt"

	"firn/internal/local/cloud/iam"
)

// Function is an AWS::Lambda::Function.
type Function struct {
	Identity      `json:"-"`
	Description   string
	Runtime       string
	Handler       string
	Architectures []string
	Code          struct{ S3Bucket, S3Key string }
	Environment   struct{ Variables map[string]string }
	// MemorySize is in MB, EphemeralStorage too, Timeout in seconds; 0 stands for Lambda's defaults, 128, 512 and 3.
	MemorySize, Timeout          int
	EphemeralStorage             struct{ Size int }
	Role                         string
	ReservedConcurrentExecutions int
	TracingConfig                struct{ Mode string }
	LoggingConfig                struct{ LogGroup string }
	DeadLetterConfig             struct{ TargetArn string }
	KmsKeyArn                    string
	VpcConfig                    struct{ SubnetIds, SecurityGroupIds []string }
}

func (f *Function) check() error {
	if f.Runtime != "provided.al2023" || f.Handler != "bootstrap" || len(f.Architectures) != 1 || f.Code.S3Key == "" || f.Role == "" {
		return fmt.Errorf("function of runtime %q, handler %q, architectures %v, code %v, role %q is not known here", f.Runtime, f.Handler, f.Architectures, f.Code, f.Role)
	}
	if f.MemorySize == 0 {
		f.MemorySize = 128
	}
	if f.Timeout == 0 {
		f.Timeout = 3
	}
	return nil
}

// Version is an AWS::Lambda::Version: code and configuration of a function at the time of its deployment.
type Version struct {
	Identity     `json:"-"`
	FunctionName string
}

// Mapping is an AWS::Lambda::EventSourceMapping from a queue.
type Mapping struct {
	Identity       `json:"-"`
	EventSourceArn string
	FunctionName   string
	// BatchSize 0 stands for Lambda's default, 10.
	BatchSize, MaximumBatchingWindowInSeconds int
	FunctionResponseTypes                     []string
	ScalingConfig                             struct{ MaximumConcurrency int }
}

func (m *Mapping) check() error {
	if m.BatchSize == 0 {
		m.BatchSize = 10
	}
	switch {
	case m.BatchSize > 10_000 || m.BatchSize > 10 && m.MaximumBatchingWindowInSeconds == 0:
		return fmt.Errorf("a batch of %d needs a window, and 10,000 is the most", m.BatchSize)
	case m.ScalingConfig.MaximumConcurrency == 1:
		return errors.New("the least concurrency of a mapping is 2")
	case len(m.FunctionResponseTypes) > 1 || len(m.FunctionResponseTypes) == 1 && m.FunctionResponseTypes[0] != "ReportBatchItemFailures":
		return fmt.Errorf("response types %v are not known here", m.FunctionResponseTypes)
	}
	return nil
}

// Machine is an AWS::StepFunctions::StateMachine with its definition as text.
type Machine struct {
	Identity                `json:"-"`
	StateMachineType        string
	RoleArn                 string
	DefinitionString        string
	DefinitionSubstitutions map[string]string
	LoggingConfiguration    struct {
		Level                string
		IncludeExecutionData bool
		Destinations         []struct {
			CloudWatchLogsLogGroup struct{ LogGroupArn string }
		}
	}
	TracingConfiguration struct{ Enabled bool }
}

func (m *Machine) check() error {
	if m.StateMachineType != "STANDARD" {
		return fmt.Errorf("state machines of type %q are not known here", m.StateMachineType)
	}
	return nil
}

// Role is an AWS::IAM::Role with policies of its own; managed ones are not known here.
type Role struct {
	Identity                 `json:"-"`
	Description              string
	AssumeRolePolicyDocument *iam.Document
	Policies                 []InlinePolicy
}

// InlinePolicy is a policy that stands in its role.
type InlinePolicy struct {
	PolicyName     string
	PolicyDocument *iam.Document
}

func (r *Role) check() error {
	faults := []error{checked(r.AssumeRolePolicyDocument, iam.Trust, r.ID+" trust")}
	for _, p := range r.Policies {
		faults = append(faults, checked(p.PolicyDocument, iam.Identity, r.ID))
	}
	return errors.Join(faults...)
}

// Policy is an AWS::IAM::Policy attached to roles by name.
type Policy struct {
	Identity       `json:"-"`
	PolicyName     string
	Roles          []string
	PolicyDocument *iam.Document
}

func (p *Policy) check() error { return checked(p.PolicyDocument, iam.Identity, p.ID) }

// checked labels and checks a document.
func checked(d *iam.Document, kind iam.Kind, where string) error {
	if d == nil {
		return errors.New("it has no policy document")
	}
	d.Label(where)
	return d.Check(kind)
}

// Documents are all policies of a role, given by its ARN; found is false when the template has no such role.
func (s *Stack) Documents(roleARN string) (documents []*iam.Document, trust *iam.Document, found bool) {
	for _, r := range s.Roles {
		if r.ARN != roleARN {
			continue
		}
		for _, p := range r.Policies {
			documents = append(documents, p.PolicyDocument)
		}
		for _, p := range s.Policies {
			for _, name := range p.Roles {
				if name == r.Name {
					documents = append(documents, p.PolicyDocument)
				}
			}
		}
		return documents, r.AssumeRolePolicyDocument, true
	}
	return nil, nil, false
}
