package catalogs_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/maintenance"
)

// postgresBinary finds a program of the PostgreSQL server: Debian keeps them out of PATH.
func postgresBinary(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// serverUser is whom the server runs as: it refuses to run as root.
func serverUser(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		return attr
	}
	var who *user.User
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			who = u
			break
		}
	}
	if who == nil {
		t.Fatal("root needs a user postgres or nobody to run the server")
	}
	uid, _ := strconv.ParseUint(who.Uid, 10, 32)
	gid, _ := strconv.ParseUint(who.Gid, 10, 32)
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr
}

// startPostgres runs a server for the test and returns its address. Without a server binary the test is skipped, or fails under STRICT=1.
func startPostgres(t *testing.T) string {
	t.Helper()
	initdb, server := postgresBinary("initdb"), postgresBinary("postgres")
	if initdb == "" || server == "" {
		const line = "PostgreSQL suite: no initdb and postgres found (Debian: apt-get install postgresql)"
		if os.Getenv("STRICT") == "1" {
			t.Fatal(line)
		}
		t.Skip(line)
	}
	dir, err := os.MkdirTemp("/tmp", "firn-pg-") // t.TempDir may lie under a folder that the server's user cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := serverUser(t, dir)
	init := exec.Command(initdb, "-D", dir+"/data", "-U", "admin", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	init.SysProcAttr, init.Dir = attr, dir
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(address)
	run := exec.Command(server, "-D", dir+"/data", "-p", port, "-k", "", "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "shared_buffers=8MB", "-c", "max_connections=60")
	var log bytes.Buffer
	run.SysProcAttr, run.Dir, run.Stdout, run.Stderr = attr, dir, &log, &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGQUIT)
		_ = run.Wait()
	})
	db := openAdmin(t, address)
	for range 300 {
		if err = db.Ping(); err == nil {
			return address
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the server does not answer: %v\n%s", err, log.String())
	return ""
}

// openAdmin connects as the superuser.
func openAdmin(t *testing.T, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", "postgres://admin@"+address+"/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// wire forwards connections to PostgreSQL and spoils the next UPDATE of iceberg_tables when armed.
type wire struct {
	server string
	admin  *sql.DB
	mu     sync.Mutex
	armed  catalogtest.Fault
}

// newWire listens on an address of its own.
func newWire(t *testing.T, server string, admin *sql.DB) (*wire, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	w := &wire{server: server, admin: admin}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go w.serve(client)
		}
	}()
	return w, listener.Addr().String()
}

func (w *wire) arm(f catalogtest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = f
}

// take disarms when the bytes hold our UPDATE.
func (w *wire) take(data []byte) catalogtest.Fault {
	if !bytes.Contains(data, []byte("UPDATE iceberg_tables")) {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fault := w.armed
	w.armed = ""
	return fault
}

// serve carries one connection.
func (w *wire) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	answers := make(chan catalogtest.Fault, 1)
	go func() {
		defer func() { _ = client.Close() }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			select {
			case fault := <-answers:
				if fault == catalogtest.SlowAnswer {
					time.Sleep(time.Second)
				}
				if fault == catalogtest.Forbidden {
					_, _ = w.admin.Exec(`GRANT UPDATE ON iceberg_tables TO app`)
					break
				}
				return
			default:
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		switch fault := w.take(buffer[:n]); fault {
		case "":
		case catalogtest.Unavailable:
			return
		case catalogtest.Forbidden:
			_, _ = w.admin.Exec(`REVOKE UPDATE ON iceberg_tables FROM app`)
			answers <- fault
		default:
			answers <- fault
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func TestPostgreSQLConforms(t *testing.T) {
	address := startPostgres(t)
	admin := openAdmin(t, address)
	if _, err := admin.Exec(`CREATE ROLE app LOGIN PASSWORD 'p@ss/word'`); err != nil {
		t.Fatal(err)
	}
	databases := 0
	open := func(t *testing.T) (*wire, *catalogs.SQL, *sql.DB) {
		t.Helper()
		databases++
		name := fmt.Sprintf("lake%d", databases)
		if _, err := admin.Exec(`CREATE DATABASE ` + name); err != nil {
			t.Fatal(err)
		}
		inside, err := sql.Open("pgx", "postgres://admin@"+address+"/"+name+"?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = inside.Close() })
		for _, statement := range []string{
			`CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
				metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))`,
			`CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL,
				property_value VARCHAR(1000) NOT NULL, PRIMARY KEY (catalog_name, namespace, property_key))`,
			`GRANT SELECT, INSERT, UPDATE, DELETE ON iceberg_tables, iceberg_namespace_properties TO app`,
		} {
			if _, err := inside.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		w, via := newWire(t, address, inside)
		cat, err := catalogs.OpenSQL("c", map[string]string{
			"uri": "postgresql+psycopg2://app:p%40ss%2Fword@" + via + "/" + name + "?sslmode=disable&prepareThreshold=0",
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cat.Close() })
		return w, cat, inside
	}
	catalogtest.Run(t, func(t *testing.T) catalogtest.World {
		w, cat, inside := open(t)
		return catalogtest.World{
			Catalog: cat, Store: memoryStore(), Root: "mem://lake/db", Arm: w.arm,
			Drop: func(t *testing.T, id maintenance.TableID) {
				t.Helper()
				if _, err := inside.Exec(`DELETE FROM iceberg_tables WHERE table_name = $1`, id.Name); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
	t.Run("creates what is missing", func(t *testing.T) { postgresCreates(t, address, admin) })
	t.Run("no server", func(t *testing.T) {
		cat, err := catalogs.OpenSQL("c", map[string]string{"uri": "jdbc:postgresql://127.0.0.1:1/x?user=u&password=secret&loginTimeout=3"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = cat.Load(t.Context(), table("n", "t")); !errors.Is(err, catalogs.ErrTransient) || strings.Contains(err.Error(), "secret") {
			t.Errorf("load: got %v, want ErrTransient without the password", err)
		}
	})
}

// postgresCreates registers in an empty database through Java's form of the URI, two processes at once.
func postgresCreates(t *testing.T, address string, admin *sql.DB) {
	if _, err := admin.Exec(`CREATE DATABASE empty`); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(`ALTER DATABASE empty SET default_transaction_isolation = 'serializable'`); err != nil {
		t.Fatal(err)
	}
	props := map[string]string{"type": "jdbc", "uri": "jdbc:postgresql://" + address + "/empty?sslmode=disable", "jdbc.user": "admin", "jdbc.password": "x"}
	var wg sync.WaitGroup
	for i := range 4 {
		cat, err := catalogs.OpenSQL("c", props)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cat.Close() })
		if _, err := cat.Load(t.Context(), table("n", "t")); !errors.Is(err, catalogs.ErrNoSuchTable) {
			t.Errorf("load from an empty database: got %v, want ErrNoSuchTable", err)
		}
		wg.Go(func() {
			if err := cat.Register(context.Background(), table("n", fmt.Sprintf("t%d", i)), "/m.json"); err != nil {
				t.Errorf("register t%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	cat, err := catalogs.OpenSQL("c", props)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cat.Close() }()
	listed := 0
	for _, err := range cat.Tables(t.Context(), "n") {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if listed != 4 {
		t.Errorf("listed %d tables, want 4", listed)
	}
	// Writers that meet under serializable isolation: a rolled back transaction is a conflict.
	base := catalogs.Pointer{MetadataLocation: "/m.json"}
	ends := map[catalogtest.End]int{}
	var mu sync.Mutex
	for i := range 8 {
		wg.Go(func() {
			err := cat.Swap(context.Background(), table("n", "t0"), base, fmt.Sprintf("/m%d.json", i))
			mu.Lock()
			defer mu.Unlock()
			ends[catalogtest.EndOf(err)]++
		})
	}
	wg.Wait()
	if ends[catalogtest.Committed] != 1 || ends[catalogtest.Conflict] != 7 {
		t.Errorf("ends under serializable isolation: %v", ends)
	}
}
