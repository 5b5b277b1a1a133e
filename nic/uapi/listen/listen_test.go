package listen

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// echoes is the name of the process that echoes.
const echoes = "tapir-echo"

func TestMain(m *testing.M) {
	if os.Args[0] == echoes {
		echo(os.Args[1])
		return
	}
	os.Exit(m.Run())
}

// echo serves lines at path. It uses up all descriptors at the line "full" from
// its standard input and gives them back at the next.
func echo(path string) {
	limit := unix.Rlimit{Cur: 40, Max: 40}
	u, err := net.Listen("unix", path)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	l := New(u, Options{Name: "echo", Refuse: func(c net.Conn, why *Refusal) { fmt.Fprintln(c, why) },
		Logf: func(format string, args ...any) { fmt.Printf("log: "+format+"\n", args...) }})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			c.(*Conn).SetBusy(true)
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() != "full" {
			continue
		}
		var taken []*os.File
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			taken = append(taken, f)
		}
		fmt.Println("none left")
		in.Scan()
		for _, f := range taken {
			f.Close()
		}
		fmt.Println("free")
	}
}

// A process without descriptors refuses clients with the reason, each of them,
// and serves the next when it has some.
func TestNoDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{echoes, path}, Stderr: os.Stderr}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	said := bufio.NewScanner(out)
	logged := 0
	await := func(want string) {
		t.Helper()
		for said.Scan() {
			if strings.HasPrefix(said.Text(), "log: ") {
				logged++
				continue
			}
			if said.Text() == want {
				return
			}
			break
		}
		t.Fatalf("%q instead of %q", said.Text(), want)
	}
	await("ready")
	for range 3 {
		if got := ask(t, path); got != "hello" {
			t.Fatalf("with descriptors: %q", got)
		}
		fmt.Fprintln(in, "full")
		await("none left")
		for range 5 {
			if got := ask(t, path); got != "too many open files: raise ulimit -n" {
				t.Fatalf("without descriptors: %q", got)
			}
		}
		fmt.Fprintln(in, "free")
		await("free")
	}
	if logged == 0 || logged > 3 {
		t.Errorf("the log has %d lines about it", logged)
	}
}

// ask returns the answer to a line.
func ask(t *testing.T, path string) string {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintln(c, "hello")
	_ = c.(*net.UnixConn).CloseWrite() // it may be refused
	line, _ := io.ReadAll(c)
	return strings.TrimSpace(string(line))
}

// served is a listener whose connections are kept.
func served(t *testing.T, network, address string, o Options) (l *Listener, accepted chan *Conn) {
	t.Helper()
	inner, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	l, accepted = New(inner, o), make(chan *Conn, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c.(*Conn)
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l, accepted
}

func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// Of a peer whose share is used up the oldest idle connection ends for a new
// one; if all are busy, the new one is refused.
func TestShares(t *testing.T) {
	for network, address := range map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"} {
		t.Run(network, func(t *testing.T) {
			l, accepted := served(t, network, address, Options{Name: "it", Total: 8, PerPeer: 3,
				Refuse: func(c net.Conn, why *Refusal) { fmt.Fprint(c, why) }})
			at := l.Addr().String()
			var clients []net.Conn
			var conns []*Conn
			for range 4 {
				clients = append(clients, dial(t, network, at))
				conns = append(conns, <-accepted)
			}
			if _, err := clients[0].Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the oldest: %v", err)
			}
			for _, c := range conns[1:] {
				c.SetBusy(true)
			}
			text, _ := io.ReadAll(dial(t, network, at))
			if !strings.Contains(string(text), "has 3 connections of it in use: close some of them") {
				t.Errorf("with all busy: %q", text)
			}
			conns[2].SetBusy(false)
			dial(t, network, at)
			<-accepted
			if _, err := clients[2].Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the idle one: %v", err)
			}
			conns[1].Close()
			dial(t, network, at)
			<-accepted
			if len(l.conns) != 3 {
				t.Errorf("%d connections", len(l.conns))
			}
		})
	}
}

// Peers that together use everything up, each within its share, leave room for
// one more while one of theirs is idle.
func TestTotal(t *testing.T) {
	l, accepted := served(t, "tcp", "127.0.0.1:0", Options{Name: "it", Total: 4, PerPeer: 2})
	var first net.Conn
	for i := range 5 {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i))}
		c, err := (&net.Dialer{LocalAddr: from}).Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i == 0 {
			first = c
		}
		<-accepted
	}
	_ = first.SetDeadline(time.Now().Add(time.Minute))
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest: %v", err)
	}
}
