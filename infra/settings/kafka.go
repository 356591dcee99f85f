package settings

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Ways to log in to Kafka with a secret.
const (
	KafkaSCRAM512 = "scram-512"
	KafkaSCRAM256 = "scram-256"
	KafkaBasic    = "basic"
	KafkaTLS      = "tls"
)

// maxKafkaServers is how many bootstrap servers a pipe can be told.
const maxKafkaServers = 3

// Kafka is a topic whose messages an EventBridge Pipe hands to the queue of commits: of a cluster of MSK, or of one's own.
type Kafka struct {
	// Cluster is the ARN of an MSK cluster, Servers are host:port of a cluster of one's own: one of the two, or none for no pipe.
	Cluster string
	Servers []string
	// Topic is read from its end on.
	Topic string
	// Secret is the ARN of the secret to log in with, Auth what it is for; "" logs in to MSK by IAM.
	Secret, Auth string
	// Subnets and SecurityGroups reach servers inside a VPC; MSK knows its own.
	Subnets, SecurityGroups []string
}

// Used reports that there is a topic to read.
func (k Kafka) Used() bool { return k.Cluster != "" || len(k.Servers) > 0 }

// How is Auth with its default.
func (k Kafka) How() string {
	if k.Auth == "" {
		return KafkaSCRAM512
	}
	return k.Auth
}

func kafkaKeys() []Key {
	return []Key{
		{"kafka.cluster", "ARN of an MSK cluster with commit events", text(func(s *Settings) *string { return &s.Kafka.Cluster })},
		{"kafka.servers", "up to three bootstrap servers of another cluster, host:port, parted by commas", list(func(s *Settings) *[]string { return &s.Kafka.Servers })},
		{"kafka.topic", "the topic of the commit events", text(func(s *Settings) *string { return &s.Kafka.Topic })},
		{"kafka.secret", "ARN of the secret to log in with; default: MSK's IAM", text(func(s *Settings) *string { return &s.Kafka.Secret })},
		{"kafka.auth", "what the secret is for: scram-512 (default), scram-256, basic or tls", text(func(s *Settings) *string { return &s.Kafka.Auth })},
		{"kafka.subnets", "IDs of subnets from which the servers are reached", list(func(s *Settings) *[]string { return &s.Kafka.Subnets })},
		{"kafka.security-groups", "IDs of security groups with which they are reached", list(func(s *Settings) *[]string { return &s.Kafka.SecurityGroups })},
	}
}

func (s Settings) checkKafka() []error {
	k := s.Kafka
	if !k.Used() {
		if k.Topic+k.Secret+k.Auth != "" || len(k.Subnets)+len(k.SecurityGroups) > 0 {
			return []error{errors.New("kafka.cluster is missing: the ARN of an MSK cluster, or kafka.servers")}
		}
		return nil
	}
	faults := []error{arns("kafka.cluster", "kafka", one(k.Cluster)), secretARNs("kafka.secret", one(k.Secret))}
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(k.Cluster != "" && len(k.Servers) > 0, "kafka.cluster and kafka.servers: name one of them")
	fault(k.Cluster != "" && strings.Count(k.Cluster[strings.LastIndexByte(k.Cluster, ':')+1:], "/") != 2,
		"kafka.cluster=%s: want the whole ARN, which ends with cluster/NAME/UUID", k.Cluster)
	fault(len(k.Servers) > maxKafkaServers, "kafka.servers: %d servers, a pipe takes %d", len(k.Servers), maxKafkaServers)
	for _, server := range k.Servers {
		host, port, err := net.SplitHostPort(server)
		n, wrong := strconv.Atoi(port)
		fault(err != nil || wrong != nil || host == "" || n < 1 || n > 65535, "kafka.servers=%s: want host:port", server)
	}
	fault(!regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`).MatchString(k.Topic), "kafka.topic=%s: want the name of a topic", k.Topic)
	known := []string{KafkaSCRAM512, KafkaSCRAM256, KafkaBasic, KafkaTLS}
	if k.Cluster != "" {
		known = []string{KafkaSCRAM512, KafkaTLS}
	}
	fault(!slices.Contains(known, k.How()), "kafka.auth=%s: want %s", k.Auth, strings.Join(known, " or "))
	fault(k.Auth != "" && k.Secret == "", "kafka.auth=%s needs kafka.secret", k.Auth)
	fault((len(k.Subnets) == 0) != (len(k.SecurityGroups) == 0), "kafka.subnets and kafka.security-groups belong together")
	fault(k.Cluster != "" && len(k.Subnets) > 0, "kafka.subnets: an MSK cluster knows its own; they are for kafka.servers")
	fault(k.Cluster == "" && k.Secret == "" && len(k.Subnets) == 0, "kafka.servers need kafka.secret, or kafka.subnets of a private network")
	return faults
}
