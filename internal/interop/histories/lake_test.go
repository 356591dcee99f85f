//go:build interop

package histories

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/store/storetest"
)

const bucket = "firn-histories"

// lake is what the engines share: one catalog, by SQL and by REST, a folder and an S3 server.
type lake struct {
	home   string
	s3     map[string]string
	server *storetest.S3Server
	java   string // the Java server's address
	python *child
	routes map[string]map[string]string // catalog properties by route
	binary string
}

// needs says what the suite cannot do without, "" when all is there.
func needs(root string) string {
	for _, need := range []struct{ path, hint string }{
		{os.Getenv("FIRN_HISTORIES_PYTHON"), "FIRN_HISTORIES_PYTHON (make spark sets it up)"},
		{filepath.Join(root, ".java", "classes", "firn", "interop", "LakeServer.class"), "the Java judges (make java)"},
		{filepath.Join(root, ".java", "spark", "iceberg-spark-runtime.jar"), "Iceberg's jar for Spark (make spark)"},
	} {
		if _, err := os.Stat(need.path); err != nil {
			return need.hint
		}
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "a Java runtime"
	}
	return ""
}

// newLake starts the engines; they end with the test.
func newLake(t *testing.T) *lake {
	t.Helper()
	root := icebergtest.Root(t)
	if need := needs(root); need != "" {
		if os.Getenv("STRICT") == "1" {
			t.Fatalf("histories need %s", need)
		}
		t.Skipf("histories need %s", need)
	}
	l := &lake{home: t.TempDir(), server: storetest.NewS3Server(t, bucket), binary: filepath.Join(root, "bin", "firn")}
	if other := os.Getenv("FIRN_BIN"); other != "" {
		l.binary = other
	}
	l.s3 = maps.Clone(l.server.Properties)
	l.s3["s3.path-style-access"] = "true"
	l.s3["client.region"] = "us-east-1"
	database := filepath.Join(l.home, "catalog.db")
	warehouse := "file://" + l.home + "/warehouse"
	jars := filepath.Join(root, ".java", "lib", "*")
	args := []string{
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Daws.region=us-east-1", "-cp", filepath.Join(root, ".java", "classes") + ":" + jars,
		"firn.interop.LakeServer", "name=lake", "uri=jdbc:sqlite:" + database, "warehouse=" + warehouse,
	}
	for _, key := range slices.Sorted(maps.Keys(l.s3)) {
		args = append(args, key+"="+l.s3[key])
	}
	java := start(t, l.home, "java", args...)
	var port int
	if _, err := fmt.Sscanf(java.line(t), "ready %d", &port); err != nil {
		t.Fatalf("start the Java server: %v", err)
	}
	l.java = fmt.Sprintf("http://127.0.0.1:%d", port)
	l.routes = map[string]map[string]string{
		"sql":  {"type": "sql", "uri": "sqlite:///" + database, "warehouse": warehouse},
		"rest": {"type": "rest", "uri": l.java},
	}
	for _, properties := range l.routes {
		maps.Copy(properties, l.s3)
	}
	l.python = start(t, l.home, os.Getenv("FIRN_HISTORIES_PYTHON"), filepath.Join(root, "internal", "interop", "histories", "engine.py"))
	setup := map[string]any{"sql": l.routes["sql"], "rest": l.routes["rest"], "s3": l.s3, "spark_home": l.home, "spark_jars": []string{
		filepath.Join(root, ".java", "spark", "iceberg-spark-runtime.jar"), filepath.Join(root, ".java", "lib", "iceberg-aws-bundle-1.12.0.jar"),
		filepath.Join(root, ".java", "lib", "sqlite-jdbc-3.50.3.0.jar"),
	}}
	l.python.send(t, setup)
	return l
}

// child is a process that we talk to by lines.
type child struct {
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *bytes.Buffer
	name   string
}

// start starts a process that ends when its input does.
func start(t *testing.T, home, name string, args ...string) *child {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = home
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "JAVA_HOME=" + os.Getenv("JAVA_HOME"), "PYTHONDONTWRITEBYTECODE=1", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_REGION=us-east-1", "AWS_REQUEST_CHECKSUM_CALCULATION=WHEN_REQUIRED", "AWS_RESPONSE_CHECKSUM_VALIDATION=WHEN_REQUIRED", "TMPDIR=" + home,
	}
	if os.Getenv("JAVA_HOME") == "" {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return e == "JAVA_HOME=" })
	}
	c := &child{name: name, stderr: &bytes.Buffer{}}
	cmd.Stderr = c.stderr
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReaderSize(out, 1<<20)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		c.in.Close()
		if err := cmd.Wait(); err != nil {
			t.Logf("%s ended: %v", name, err)
		}
	})
	return c
}

func (c *child) line(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		text := c.stderr.String()
		t.Fatalf("%s ended: %v\n%s", c.name, err, text[max(0, len(text)-4000):])
	}
	return line
}

func (c *child) send(t *testing.T, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write(append(data, '\n')); err != nil {
		t.Fatalf("write to %s: %v\n%s", c.name, err, c.stderr.String())
	}
}

// reply is what an engine answers.
type reply struct {
	Error   string               `json:"error"`
	Values  []string             `json:"values"`
	Facts   *icebergtest.Content `json:"facts"`
	Lineage map[string][2]*int64 `json:"lineage"`
	Faults  []string             `json:"faults"`
	Counts  map[string]int       `json:"counts"`
	icebergtest.Content
}

type command map[string]any

// engine asks the Python process.
func (l *lake) engine(t *testing.T, c command) reply {
	t.Helper()
	l.python.send(t, c)
	var r reply
	if err := json.Unmarshal([]byte(l.python.line(t)), &r); err != nil {
		t.Fatalf("decode the answer to %v: %v", c, err)
	}
	return r
}

// core asks Iceberg's library.
func (l *lake) core(t *testing.T, c command) reply {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(l.java+"/do", "application/json", bytes.NewReader(data))
	if err != nil {
		t.Fatalf("ask the Java server: %v", err)
	}
	defer response.Body.Close()
	var r reply
	if err := json.NewDecoder(response.Body).Decode(&r); err != nil {
		t.Fatalf("decode the Java server's answer: %v", err)
	}
	return r
}

// firn runs bin/firn by a route and returns its exit status, the object on stdout, and all that it printed.
func (l *lake) firn(t *testing.T, route string, args ...string) (code int, object map[string]any, text string) {
	t.Helper()
	args = append(args, "--catalog", "lake")
	for _, key := range slices.Sorted(maps.Keys(l.routes[route])) {
		args = append(args, "-P", key+"="+l.routes[route][key])
	}
	cmd := exec.CommandContext(t.Context(), l.binary, args...)
	cmd.Dir, cmd.Env = l.home, []string{"HOME=" + l.home, "FIRN_HOME=" + l.home, "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", l.binary, err)
	}
	decoder := json.NewDecoder(&stdout)
	decoder.UseNumber()
	text = strings.TrimSpace(stdout.String() + stderr.String())
	if err := decoder.Decode(&object); err != nil {
		object = nil
	}
	return cmd.ProcessState.ExitCode(), object, text
}
