// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

func TestEndOfFile(t *testing.T) {
	dir := t.TempDir()
	if end, known := endOfFile(dir)(); known {
		t.Errorf("a file that is not there ends %s", end)
	}
	cert, _, err := certutil.GenerateSelfSignedCertKey("webhook.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600); err != nil {
		t.Fatal(err)
	}
	// The library gives a year.
	if end, known := endOfFile(dir)(); !known || time.Until(end) < 364*24*time.Hour || time.Until(end) > 366*24*time.Hour {
		t.Errorf("it ends %s, %t", end, known)
	}
}
