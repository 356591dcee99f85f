package template

import (
	"encoding/json"
	"errors"
	"fmt"

	"firn/internal/local/cloud/iam"
	"firn/internal/local/cloud/pattern"
)

// Queue is an AWS::SQS::Queue. Times are in seconds.
type Queue struct {
	Identity                                  `json:"-"`
	MessageRetentionPeriod, VisibilityTimeout int
	SqsManagedSseEnabled                      bool
	KmsMasterKeyId                            string
	RedrivePolicy                             struct {
		DeadLetterTargetArn string      `json:"deadLetterTargetArn"`
		MaxReceiveCount     json.Number `json:"maxReceiveCount"`
	}
	// MaxReceives is the redrive policy's number; 0 without one.
	MaxReceives int `json:"-"`
}

func (q *Queue) check() (err error) {
	if q.MaxReceives, err = number(q.RedrivePolicy.MaxReceiveCount); err != nil {
		return err
	}
	if (q.RedrivePolicy.DeadLetterTargetArn == "") != (q.MaxReceives == 0) {
		return errors.New("a redrive policy wants a queue and a number of receives")
	}
	return nil
}

// QueuePolicy is an AWS::SQS::QueuePolicy; Queues are URLs.
type QueuePolicy struct {
	Identity       `json:"-"`
	PolicyDocument *iam.Document
	Queues         []string
}

func (p *QueuePolicy) check() error { return checked(p.PolicyDocument, iam.Resource, p.ID) }

// Rule is an AWS::Events::Rule on the default bus whose targets are queues.
type Rule struct {
	Identity     `json:"-"`
	Description  string
	State        string
	EventPattern any
	Targets      []struct {
		Id, Arn          string
		DeadLetterConfig struct{ Arn string }
	}
	// Pattern is the compiled event pattern.
	Pattern *pattern.Pattern `json:"-"`
}

func (r *Rule) check() (err error) {
	if r.State != "ENABLED" {
		return fmt.Errorf("the rule's state is %q", r.State)
	}
	r.Pattern, err = pattern.Compile(r.EventPattern)
	return err
}

// Schedule is an AWS::Scheduler::Schedule whose target is a function.
type Schedule struct {
	Identity           `json:"-"`
	Description        string
	ScheduleExpression string
	FlexibleTimeWindow struct {
		Mode                   string
		MaximumWindowInMinutes int
	}
	Target struct {
		Arn, RoleArn, Input string
		RetryPolicy         struct{ MaximumEventAgeInSeconds, MaximumRetryAttempts int }
		DeadLetterConfig    struct{ Arn string }
	}
}

// Topic is an AWS::SNS::Topic.
type Topic struct {
	Identity `json:"-"`
}

// TopicPolicy is an AWS::SNS::TopicPolicy.
type TopicPolicy struct {
	Identity       `json:"-"`
	PolicyDocument *iam.Document
	Topics         []string
}

func (p *TopicPolicy) check() error { return checked(p.PolicyDocument, iam.Resource, p.ID) }

// Subscription is an AWS::SNS::Subscription.
type Subscription struct {
	Identity                     `json:"-"`
	TopicArn, Protocol, Endpoint string
	RawMessageDelivery           bool
	Region                       string
	FilterPolicy                 any
	FilterPolicyScope            string
	RedrivePolicy                struct {
		DeadLetterTargetArn string `json:"deadLetterTargetArn"`
	}
	// Filter is the compiled filter policy; nil without one.
	Filter *pattern.Pattern `json:"-"`
}

func (s *Subscription) check() (err error) {
	if s.Protocol != "sqs" && s.Protocol != "email" {
		return fmt.Errorf("subscriptions by %s are not known here", s.Protocol)
	}
	if s.FilterPolicy != nil {
		s.Filter, err = pattern.Compile(s.FilterPolicy)
	}
	return err
}
