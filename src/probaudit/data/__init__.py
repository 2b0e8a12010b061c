"""Rows as arrays: conversion, validation, classes, and work shared between threads."""
