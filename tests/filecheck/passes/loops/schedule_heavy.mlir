// RUN: ocannl-opt %s --cpu x86-64-v4 -p expand-math,schedule | filecheck %s --check-prefix MANY
// RUN: ocannl-opt %s --cpu x86-64-v3 -p expand-math,schedule | filecheck %s --check-prefix FEW

// The operations of two error functions wait for each other: with many registers a tile has two vectors, whose
// operations do not.
// MANY: loops.nest "y" (i = 4096) schedule <{{.*}}lanes = i : 32>
// FEW:  loops.nest "y" (i = 4096) schedule <{{.*}}lanes = i : 16>
loops.func @heavy {
  %x = assign.node "x" on_device : memref<4096xf32>
  %y = assign.node "y" on_device : memref<4096xf32>
  loops.nest "y" (i = 4096) {
    %v = loops.load %x[i]
    %e = math.erf %v : f32
    %q = math.erf %e : f32
    loops.store %q, %y[i]
  }
}

// An exponential has few enough: more vectors hide its latency even where some of them go to the stack.
// MANY: loops.nest "y" (i = 4096) schedule <{{.*}}lanes = i : 64>
// FEW:  loops.nest "y" (i = 4096) schedule <{{.*}}lanes = i : 32>
loops.func @exponential {
  %x = assign.node "x" on_device : memref<4096xf32>
  %y = assign.node "y" on_device : memref<4096xf32>
  loops.nest "y" (i = 4096) {
    %v = loops.load %x[i]
    %e = math.exp %v : f32
    loops.store %e, %y[i]
  }
}
