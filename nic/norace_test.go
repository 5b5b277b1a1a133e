//go:build !race

package nic

const raceDetector = false
