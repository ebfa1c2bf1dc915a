// SPDX-License-Identifier: Apache-2.0

package analyses

import "testing"

// The sample of the documentation is understood.
func TestTheSampleIsUnderstood(t *testing.T) {
	all, err := ReadProviders("../../../docs/samples/analysis-providers.yaml")
	if err != nil || len(all) != 2 || !all["main"].alerting || all["judge"].alerting || all["judge"].timeout.Seconds() != 5 {
		t.Errorf("%+v, %v", all, err)
	}
}
