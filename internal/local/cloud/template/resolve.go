package template

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// resolver replaces intrinsic functions by what they stand for.
type resolver struct {
	place     Place
	resources map[string]*resource
}

// value resolves a value and all that is in it.
func (r resolver) value(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			resolved, err := r.value(one)
			if err != nil {
				return nil, err
			}
			out[i] = resolved
		}
		return out, nil
	case map[string]any:
		for name, argument := range v {
			if name == "Ref" || strings.HasPrefix(name, "Fn::") {
				if len(v) != 1 {
					return nil, fmt.Errorf("%s stands beside other fields", name)
				}
				return r.call(name, argument)
			}
		}
		out := make(map[string]any, len(v))
		for name, one := range v {
			resolved, err := r.value(one)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[name] = resolved
		}
		return out, nil
	default:
		return v, nil
	}
}

func (r resolver) call(name string, argument any) (any, error) {
	switch name {
	case "Ref":
		id, is := argument.(string)
		if !is {
			return nil, fmt.Errorf("function Ref wants a name, not %v", argument)
		}
		return r.reference(id)
	case "Fn::GetAtt":
		pair, is := argument.([]any)
		if !is || len(pair) != 2 {
			return nil, fmt.Errorf("Fn::GetAtt wants two names, not %v", argument)
		}
		return r.attribute(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
	case "Fn::Join":
		return r.join(argument)
	case "Fn::Sub":
		text, is := argument.(string)
		if !is {
			return nil, fmt.Errorf("Fn::Sub with variables is not known here")
		}
		return r.substitute(text)
	default:
		return nil, fmt.Errorf("intrinsic function %s is not known here", name)
	}
}

func (r resolver) join(argument any) (any, error) {
	pair, is := argument.([]any)
	if !is || len(pair) != 2 {
		return nil, fmt.Errorf("Fn::Join wants a delimiter and a list")
	}
	list, err := r.value(pair[1])
	if err != nil {
		return nil, err
	}
	values, is := list.([]any)
	delimiter, isText := pair[0].(string)
	if !is || !isText {
		return nil, fmt.Errorf("Fn::Join wants a delimiter and a list")
	}
	parts := make([]string, len(values))
	for i, v := range values {
		text, is := v.(string)
		if !is {
			return nil, fmt.Errorf("Fn::Join wants texts, not %v", v)
		}
		parts[i] = text
	}
	return strings.Join(parts, delimiter), nil
}

func (r resolver) substitute(text string) (string, error) {
	var fault error
	out := regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllStringFunc(text, func(hole string) string {
		name := strings.TrimSuffix(strings.TrimPrefix(hole, "${"), "}")
		if literal, is := strings.CutPrefix(name, "!"); is {
			return "${" + literal + "}"
		}
		var value string
		var err error
		if id, attribute, is := strings.Cut(name, "."); is {
			value, err = r.attribute(id, attribute)
		} else {
			value, err = r.reference(name)
		}
		if err != nil {
			fault = err
		}
		return value
	})
	return out, fault
}

// reference is what Ref gives.
func (r resolver) reference(id string) (string, error) {
	switch id {
	case "AWS::Partition":
		return r.place.Partition, nil
	case "AWS::Region":
		return r.place.Region, nil
	case "AWS::AccountId":
		return r.place.Account, nil
	case "AWS::StackName":
		return r.place.Stack, nil
	case "AWS::URLSuffix":
		return "amazonaws.com", nil
	}
	res := r.resources[id]
	if res == nil {
		return "", fmt.Errorf("reference to %s, which does not exist", id)
	}
	physical := r.place.Stack + "-" + id
	switch res.Type {
	case "AWS::SQS::Queue":
		return fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", r.place.Region, r.place.Account, physical), nil
	case "AWS::S3::Bucket":
		return strings.ToLower(physical), nil
	case "AWS::SNS::Topic", "AWS::StepFunctions::StateMachine":
		return r.attribute(id, "Arn")
	case "AWS::Lambda::Version":
		return r.version(id, res)
	default:
		return physical, nil
	}
}

// version is the ARN of a published version: that of its function, and its number.
func (r resolver) version(id string, res *resource) (string, error) {
	properties, _ := res.Properties.(map[string]any)
	function, err := r.value(properties["FunctionName"])
	if err != nil {
		return "", err
	}
	number := max(r.place.Versions[id], 1)
	return fmt.Sprintf("%s%s:%d", r.arn("lambda"), "function:"+fmt.Sprint(function), number), nil
}

func (r resolver) arn(service string) string {
	return "arn:" + r.place.Partition + ":" + service + ":" + r.place.Region + ":" + r.place.Account + ":"
}

// attribute is what Fn::GetAtt gives.
func (r resolver) attribute(id, name string) (string, error) {
	res := r.resources[id]
	if res == nil {
		return "", fmt.Errorf("attribute %s of %s, which does not exist", name, id)
	}
	physical := r.place.Stack + "-" + id
	attributes := map[string]map[string]string{
		"AWS::Lambda::Function":            {"Arn": r.arn("lambda") + "function:" + physical},
		"AWS::SQS::Queue":                  {"Arn": r.arn("sqs") + physical, "QueueName": physical},
		"AWS::DynamoDB::Table":             {"Arn": r.arn("dynamodb") + "table/" + physical},
		"AWS::S3::Bucket":                  {"Arn": "arn:" + r.place.Partition + ":s3:::" + strings.ToLower(physical)},
		"AWS::IAM::Role":                   {"Arn": "arn:" + r.place.Partition + ":iam::" + r.place.Account + ":role/" + physical},
		"AWS::StepFunctions::StateMachine": {"Arn": r.arn("states") + "stateMachine:" + physical, "Name": physical},
		"AWS::Logs::LogGroup":              {"Arn": r.arn("logs") + "log-group:" + physical + ":*"},
		"AWS::Events::Rule":                {"Arn": r.arn("events") + "rule/" + physical},
		"AWS::SNS::Topic":                  {"Arn": r.arn("sns") + physical},
	}
	value, known := attributes[res.Type][name]
	if !known {
		return "", fmt.Errorf("attribute %s of %s, a %s, is not known here", name, id, res.Type)
	}
	return value, nil
}

// number reads a number that CloudFormation also takes as text.
func number(n json.Number) (int, error) {
	if n == "" {
		return 0, nil
	}
	v, err := n.Int64()
	return int(v), err
}
