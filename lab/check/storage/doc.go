// Package storage has strangers' programs use the storage functions of a NIC.
package storage
