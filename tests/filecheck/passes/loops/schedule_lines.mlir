// RUN: ocannl-opt %s -p schedule{cpu=x86-64-v3} | filecheck %s

// Rows of 1004 bytes begin anywhere in a line, so that 64 bytes of each reach into a second one. The first-level cache has room for
// those of 251 rows, 16 KB, but not for the 31 KB of their lines: whole tiles read panels.
loops.func @many {
  %a = assign.node "a" on_device : memref<251x251xf32>
  %b = assign.node "b" on_device : memref<251x251xf32>
  %y = assign.node "y" on_device : memref<251x251xf32>
  loops.nest "y" (i = 251, j = 251) {
    %s = loops.reduce add (k = 251) : f32 {
      %p = loops.load %a[i, k]
      %q = loops.load %b[k, j]
      %r = arith.mulf %p, %q : f32
      loops.yield %r
    }
    loops.store %s, %y[i, j]
  }
}
// CHECK-LABEL: loops.func @many
// CHECK: assign.node "b.packed" local because "contiguous copy for y" : memref<15x251x16xf32>
// CHECK: loops.nest "y remainder" (i = 251, j = 11)

// It has room for the lines of 180 rows, which are read where they are.
loops.func @few {
  %a = assign.node "a" on_device : memref<251x180xf32>
  %b = assign.node "b" on_device : memref<180x251xf32>
  %y = assign.node "y" on_device : memref<251x251xf32>
  loops.nest "y" (i = 251, j = 251) {
    %s = loops.reduce add (k = 180) : f32 {
      %p = loops.load %a[i, k]
      %q = loops.load %b[k, j]
      %r = arith.mulf %p, %q : f32
      loops.yield %r
    }
    loops.store %s, %y[i, j]
  }
}
// CHECK-LABEL: loops.func @few
// CHECK-NOT: packed
