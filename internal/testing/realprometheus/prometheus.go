// SPDX-License-Identifier: Apache-2.0

// Package realprometheus starts a real Prometheus for tests, if the machine has one.
package realprometheus

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// howTo is how to get a Prometheus without installing it.
const howTo = "apt-get download prometheus && mkdir -p bin/prometheus && dpkg -x prometheus_*.deb bin/prometheus"

// find returns the program; empty if there is none.
func find() string {
	dirs := []string{os.Getenv("EVERYNODE_BIN")}
	if dir, err := os.Getwd(); err == nil {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			dirs = append(dirs, filepath.Join(dir, "bin"))
		}
	}
	for _, dir := range dirs {
		for _, name := range []string{"prometheus/usr/bin/prometheus", "prometheus"} {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); dir != "" && err == nil && info.Mode().IsRegular() {
				return file
			}
		}
	}
	file, err := exec.LookPath("prometheus")
	if err != nil {
		return ""
	}
	return file
}

// FreePort returns a port of the loopback address that is free now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("the address is %s", l.Addr())
	}
	return address.Port, nil
}

// Start runs a Prometheus on a port until the test ends. It reads the metrics of target ten times a second, and evaluates the rules as often. Without the program,
// the test is skipped.
func Start(t *testing.T, port int, target, rules string) (address string) {
	t.Helper()
	program := find()
	if program == "" {
		t.Skip("skipped: no Prometheus in bin/ or PATH; to run this test, get one: " + howTo)
	}
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 100ms, scrape_timeout: 100ms, evaluation_interval: 100ms}\nrule_files: [rules.yaml]\nscrape_configs: [{job_name: test, static_configs: [{targets: [%q]}]}]\n", target)
	for name, text := range map[string]string{"prometheus.yaml": config, "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
	command.Stdout, command.Stderr = log, log
	command.WaitDelay = 10 * time.Second
	if err := command.Start(); err != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		_ = log.Close()
	})
	address = "http://" + listen
	for range 600 {
		if ready(address) {
			return address
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("Prometheus has ended:\n%s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("Prometheus does not become ready")
	return ""
}

func ready(address string) bool {
	response, err := http.Get(address + "/-/ready")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}
