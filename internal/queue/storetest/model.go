package storetest

import "testing"

func runModel(*testing.T, Harness) {}
