// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// Ends is when the certificate that is served ends; false while there is none.
type Ends func() (time.Time, bool)

// endOfFile is the end of the certificate in a directory, which somebody else renews.
func endOfFile(dir string) Ends {
	return func() (time.Time, bool) {
		all, err := certutil.CertsFromFile(filepath.Join(dir, "tls.crt"))
		if err != nil || len(all) == 0 {
			return time.Time{}, false
		}
		return all[0].NotAfter, true
	}
}
