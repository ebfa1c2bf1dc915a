// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// Ends returns when the served certificate expires; ok is false if there is none.
type Ends func() (time.Time, bool)

// endOfFile returns the end of the certificate in a directory, which another program renews.
func endOfFile(dir string) Ends {
	return func() (time.Time, bool) {
		all, err := certutil.CertsFromFile(filepath.Join(dir, "tls.crt"))
		if err != nil || len(all) == 0 {
			return time.Time{}, false
		}
		return all[0].NotAfter, true
	}
}
