// Command faultloom-conform computes the vectors of spec/README.md with this SDK and prints one line for each, in the
// order of their names, good ones first:
//
//	faultloom-conform spec/vectors
//
// It reads only the kind and the input of a vector, never the expected result.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: faultloom-conform VECTOR-FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "faultloom-conform:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	for _, folder := range []string{"good", "bad"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.json")) // sorted
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("no vectors in %s", filepath.Join(root, folder))
		}
		for _, file := range files {
			name := folder + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
			line, err := compute(file)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Println(name, line)
		}
	}
	return nil
}

func compute(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var vector struct {
		Kind  string
		Input json.RawMessage
	}
	if err := json.Unmarshal(text, &vector); err != nil {
		return "", err
	}
	f, ok := kinds[vector.Kind]
	if !ok {
		return "", fmt.Errorf("unknown kind %q", vector.Kind)
	}
	result, err := f(vector.Input)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(result); err != nil { // maps: keys come out sorted
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}
