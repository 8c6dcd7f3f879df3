package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const vectors = "../../../../spec/vectors"

func TestVectorsMatchTheReference(t *testing.T) {
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("skipped 1 test: the vectors are not beside this module")
	}
	files, _ := filepath.Glob(filepath.Join(vectors, "*", "*.json"))
	if len(files) == 0 {
		t.Fatal("no vectors")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ Expect json.RawMessage }
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, v.Expect); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if got, err := compute(file); err != nil || got != want.String() {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want.String())
		}
	}
}
