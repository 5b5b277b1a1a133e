package emnode

import (
	"testing"

	"go.uber.org/goleak"

	"tapir/lab/check/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must  = testenv.Must
	await = testenv.Until
	ips   = testenv.Prefixes
)
