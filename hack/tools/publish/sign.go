// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// Where cosign looks for signatures and attestations, and how it reads them (its specification SIGNATURE_SPEC.md).
const (
	signatureLayer      types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	envelopeLayer       types.MediaType = "application/vnd.dsse.envelope.v1+json"
	signatureAnnotation                 = "dev.cosignproject.cosign/signature"
	typeAnnotation                      = "predicateType"
	statementType                       = "application/vnd.in-toto+json"
	signatureSuffix                     = ".sig"
	attestationSuffix                   = ".att"
)

// The types of what is attested.
const (
	materials  = "https://cyclonedx.org/bom"
	provenance = "https://slsa.dev/provenance/v1"
)

// loadKey reads a private key: PEM, or what cosign generate-key-pair writes, whose password is in COSIGN_PASSWORD.
func loadKey(file string) (signature.Signer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(data, cryptoutils.StaticPasswordFunc([]byte(os.Getenv("COSIGN_PASSWORD"))))
	if err != nil {
		return nil, fmt.Errorf("reading the key %s, with the password in COSIGN_PASSWORD: %w", file, err)
	}
	return signature.LoadSigner(key, crypto.SHA256)
}

// sign signs what has a digest.
func (p publisher) sign(ref name.Digest) error {
	claim, err := payload.Cosign{Image: ref}.MarshalJSON()
	if err != nil {
		return err
	}
	signed, err := p.key.SignMessage(bytes.NewReader(claim))
	if err != nil {
		return fmt.Errorf("signing %s: %w", ref, err)
	}
	return attach(ref, signatureSuffix, mutate.Addendum{
		Layer:       static.NewLayer(claim, signatureLayer),
		Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signed)},
	})
}

// statement is an in-toto statement: a claim about a digest.
type statement struct {
	Type          string          `json:"_type"`
	PredicateType string          `json:"predicateType"`
	Subject       []subject       `json:"subject"`
	Predicate     json.RawMessage `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// attest attests what a program is made of, and where it was built from.
func (p publisher) attest(ref name.Digest, program, dist string) error {
	var layers []mutate.Addendum
	for _, a := range []struct{ kind, file string }{{materials, program + ".cdx.json"}, {provenance, "everynode.provenance.json"}} {
		predicate, err := os.ReadFile(filepath.Join(dist, a.file))
		if err != nil {
			return err
		}
		algorithm, digest, _ := strings.Cut(ref.DigestStr(), ":")
		text, err := json.Marshal(statement{
			Type: "https://in-toto.io/Statement/v0.1", PredicateType: a.kind, Predicate: predicate,
			Subject: []subject{{Name: ref.Context().Name(), Digest: map[string]string{algorithm: digest}}},
		})
		if err != nil {
			return fmt.Errorf("reading %s: %w", a.file, err)
		}
		envelope, err := dsse.WrapSigner(p.key, statementType).SignMessage(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("signing the attestation %s of %s: %w", a.kind, ref, err)
		}
		layers = append(layers, mutate.Addendum{
			Layer: static.NewLayer(envelope, envelopeLayer), Annotations: map[string]string{signatureAnnotation: "", typeAnnotation: a.kind},
		})
	}
	return attach(ref, attestationSuffix, layers...)
}

// attach pushes layers under the tag that belongs to a digest.
func attach(ref name.Digest, suffix string, layers ...mutate.Addendum) error {
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layers...)
	if err != nil {
		return err
	}
	tag := ref.Context().Tag(strings.ReplaceAll(ref.DigestStr(), ":", "-") + suffix)
	if err := remote.Write(tag, image, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", tag, err)
	}
	return nil
}
