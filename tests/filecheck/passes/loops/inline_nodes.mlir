// RUN: ocannl-opt %s --split-input-file -p inline-nodes | filecheck %s

// A slice, a product, a bias and a relu become one nest; the names of the reader stay, the others give way.
// CHECK-LABEL: loops.func @layer
// CHECK-DAG:     "x" virtual because "computed where it is used: {{.*}}"
// CHECK-DAG:     "product" virtual
// CHECK-DAG:     "sum" virtual
// CHECK:         loops.nest "h" (i = 10, j = 16) {
// CHECK-NEXT:      %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %bias = loops.load %b1[j]
// CHECK-NEXT:      %acc = loops.reduce add (i1 = 2) : f32 {
// CHECK-NEXT:        %w = loops.load %w1[j, i1]
// CHECK-NEXT:        %v = loops.load %data[batch_n, i, i1]
// CHECK-NEXT:        %p = arith.mulf %w, %v : f32
// CHECK-NEXT:        loops.yield %p
// CHECK-NEXT:      }
// CHECK-NEXT:      %s = arith.addf %bias, %acc : f32
// CHECK-NEXT:      %r = arith.maximumf %s, %zero : f32
// CHECK-NEXT:      loops.store %r, %h[i, j]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @layer indices (batch_n = 80) {
  %data = assign.node "data" constant because "data" : memref<80x10x2xf32>
  %w1 = assign.node "w1" on_device because "parameter" : memref<16x2xf32>
  %b1 = assign.node "b1" on_device because "parameter" : memref<16xf32>
  %x = assign.node "x" local because "intermediate value" : memref<10x2xf32>
  %product = assign.node "product" local because "intermediate value" : memref<10x16xf32>
  %sum = assign.node "sum" local because "intermediate value" : memref<10x16xf32>
  %h = assign.node "h" on_device because "kept" : memref<10x16xf32>
  loops.nest "x" (b = 10, i = 2) {
    %v = loops.load %data[batch_n, b, i]
    loops.store %v, %x[b, i]
  }
  loops.nest "product" (b = 10, o = 16) {
    %acc = loops.reduce add (i = 2) : f32 {
      %w = loops.load %w1[o, i]
      %v = loops.load %x[b, i]
      %p = arith.mulf %w, %v : f32
      loops.yield %p
    }
    loops.store %acc, %product[b, o]
  }
  loops.nest "sum" (b = 10, o = 16) {
    %bias = loops.load %b1[o]
    %p = loops.load %product[b, o]
    %s = arith.addf %bias, %p : f32
    loops.store %s, %sum[b, o]
  }
  loops.nest "h" (i = 10, j = 16) {
    %zero = arith.constant 0.0 : f32
    %s = loops.load %sum[i, j]
    %r = arith.maximumf %s, %zero : f32
    loops.store %r, %h[i, j]
  }
}

// -----

// The reset of a gradient is a constant: what accumulates onto it is one nest, and the reset is gone.
// CHECK-LABEL: loops.func @reset_and_accumulate
// CHECK:         "w.grad" on_device
// CHECK-NEXT:    loops.nest "w.grad" (o = 3) {
// CHECK-NEXT:      %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %a = loops.load %adjoint[o]
// CHECK-NEXT:      %s = arith.addf %zero, %a : f32
// CHECK-NEXT:      loops.store %s, %g[o]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @reset_and_accumulate {
  %adjoint = assign.node "adjoint" constant : memref<3xf32>
  %g = assign.node "w.grad" on_device because "gradient" : memref<3xf32>
  loops.nest "w.grad reset" (i0 = 3) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %g[i0]
  }
  loops.nest "w.grad" (o = 3) {
    %old = loops.load %g[o]
    %a = loops.load %adjoint[o]
    %s = arith.addf %old, %a : f32
    loops.store %s, %g[o]
  }
}

// -----

// `a` is written between the computation of `t` and its use.
// CHECK-LABEL: loops.func @operand_written_between
// CHECK:         "t" local
// CHECK:         loops.nest "t"
// CHECK:         loops.nest "a"
// CHECK:         loops.load %t[i]
loops.func @operand_written_between {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3xf32>
  %t = assign.node "t" local because "intermediate value" : memref<3xf32>
  loops.nest "t" (i = 3) {
    %v = loops.load %a[i]
    %n = arith.negf %v : f32
    loops.store %n, %t[i]
  }
  loops.nest "a" (i = 3) {
    %v = loops.load %b[i]
    loops.store %v, %a[i]
  }
  loops.nest "b" (i = 3) {
    %v = loops.load %t[i]
    loops.store %v, %b[i]
  }
}

// -----

// `a = a + f(a)` at the same point may read `a` directly, `a = a + f(transposed a)` may not.
// CHECK-LABEL: loops.func @reader_writes_operand
// CHECK:         "t" virtual
// CHECK:         "u" local
// CHECK:         loops.nest "same point"
// CHECK-COUNT-2: loops.load %a[i, j]
// CHECK:         loops.nest "u"
// CHECK:         loops.nest "other point"
// CHECK:         loops.load %u[i, j]
loops.func @reader_writes_operand {
  %a = assign.node "a" on_device : memref<3x3xf32>
  %t = assign.node "t" local because "intermediate value" : memref<3x3xf32>
  %u = assign.node "u" local because "intermediate value" : memref<3x3xf32>
  loops.nest "t" (i = 3, j = 3) {
    %v = loops.load %a[i, j]
    loops.store %v, %t[i, j]
  }
  loops.nest "same point" (i = 3, j = 3) {
    %v = loops.load %a[i, j]
    %f = loops.load %t[i, j]
    %s = arith.addf %v, %f : f32
    loops.store %s, %a[i, j]
  }
  loops.nest "u" (i = 3, j = 3) {
    %v = loops.load %a[j, i]
    loops.store %v, %u[i, j]
  }
  loops.nest "other point" (i = 3, j = 3) {
    %v = loops.load %a[i, j]
    %f = loops.load %u[i, j]
    %s = arith.addf %v, %f : f32
    loops.store %s, %a[i, j]
  }
}

// -----

// A nest that has stored to a node loads the new value.
// CHECK-LABEL: loops.func @loaded_after_store
// CHECK:         loops.nest "p0"
// CHECK:         loops.store %one, %a[i]
// CHECK-NEXT:    loops.load %a[i]
loops.func @loaded_after_store {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3xf32>
  loops.nest "a" (i = 3) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %a[i]
  }
  loops.nest "p0" (i = 3) {
    %one = arith.constant 1.0 : f32
    loops.store %one, %a[i]
    %v = loops.load %a[i]
    loops.store %v, %b[i]
  }
}

// -----

// Only a part of `t` is computed by the last nest that writes it.
// CHECK-LABEL: loops.func @part_written
// CHECK:         "t" local
// CHECK:         loops.load %t[i]
loops.func @part_written {
  %a = assign.node "a" on_device : memref<3xf32>
  %t = assign.node "t" local because "intermediate value" : memref<3xf32>
  loops.nest "t reset" (i = 3) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %t[i]
  }
  loops.nest "t" (i = 2) {
    %one = arith.constant 1.0 : f32
    loops.store %one, %t[i + 1]
  }
  loops.nest "a" (i = 3) {
    %v = loops.load %t[i]
    loops.store %v, %a[i]
  }
}

// -----

// A sum that two nests read is computed once; so is one whose reader reads it again and again.
// CHECK-LABEL: loops.func @reductions_stay
// CHECK:         "twice" local
// CHECK:         "row" local
// CHECK:         loops.nest "twice"
// CHECK:         loops.nest "row"
// CHECK:         loops.nest "a"
// CHECK:         loops.nest "b"
// CHECK:         loops.load %row[j]
loops.func @reductions_stay {
  %x = assign.node "x" on_device : memref<3x4xf32>
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3x4xf32>
  %twice = assign.node "twice" local because "intermediate value" : memref<3xf32>
  %row = assign.node "row" local because "intermediate value" : memref<4xf32>
  loops.nest "twice" (i = 3) {
    %acc = loops.reduce add (j = 4) : f32 {
      %v = loops.load %x[i, j]
      loops.yield %v
    }
    loops.store %acc, %twice[i]
  }
  loops.nest "row" (j = 4) {
    %acc = loops.reduce add (i = 3) : f32 {
      %v = loops.load %x[i, j]
      loops.yield %v
    }
    loops.store %acc, %row[j]
  }
  loops.nest "a" (i = 3) {
    %v = loops.load %twice[i]
    loops.store %v, %a[i]
  }
  loops.nest "b" (i = 3, j = 4) {
    %v = loops.load %twice[i]
    %w = loops.load %row[j]
    %s = arith.addf %v, %w : f32
    loops.store %s, %b[i, j]
  }
}

// -----

// An exponential is not repeated inside a product; a single reader at the same points takes it in.
// CHECK-LABEL: loops.func @costly
// CHECK:         "e" local
// CHECK:         "f" virtual
// CHECK:         loops.nest "e"
// CHECK:         math.exp
// CHECK:         loops.nest "product"
// CHECK-NOT:     math.exp
// CHECK:         loops.nest "total"
// CHECK:         loops.reduce
// CHECK:         math.exp
loops.func @costly {
  %x = assign.node "x" on_device : memref<3x4xf32>
  %w = assign.node "w" on_device : memref<5x4xf32>
  %e = assign.node "e" local because "intermediate value" : memref<3x4xf32>
  %f = assign.node "f" local because "intermediate value" : memref<3x4xf32>
  %product = assign.node "product" on_device : memref<3x5xf32>
  %total = assign.node "total" on_device : memref<f32>
  loops.nest "e" (i = 3, j = 4) {
    %v = loops.load %x[i, j]
    %r = math.exp %v : f32
    loops.store %r, %e[i, j]
  }
  loops.nest "product" (i = 3, o = 5) {
    %acc = loops.reduce add (j = 4) : f32 {
      %v = loops.load %e[i, j]
      %u = loops.load %w[o, j]
      %p = arith.mulf %u, %v : f32
      loops.yield %p
    }
    loops.store %acc, %product[i, o]
  }
  loops.nest "f" (i = 3, j = 4) {
    %v = loops.load %x[i, j]
    %r = math.exp %v : f32
    loops.store %r, %f[i, j]
  }
  loops.nest "total" () {
    %acc = loops.reduce add (i = 3, j = 4) : f32 {
      %v = loops.load %f[i, j]
      loops.yield %v
    }
    loops.store %acc, %total[]
  }
}

// -----

// A value that does not vary in a reduction is computed before it.
// CHECK-LABEL: loops.func @before_reduction
// CHECK:         loops.nest "r" (i = 3) {
// CHECK-NEXT:      %v = loops.load %x[i]
// CHECK-NEXT:      %n = arith.negf %v : f32
// CHECK-NEXT:      loops.reduce add (j = 4) : f32 {
loops.func @before_reduction {
  %x = assign.node "x" on_device : memref<3xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  %t = assign.node "t" local because "intermediate value" : memref<3xf32>
  %r = assign.node "r" on_device : memref<3xf32>
  loops.nest "t" (i = 3) {
    %v = loops.load %x[i]
    %n = arith.negf %v : f32
    loops.store %n, %t[i]
  }
  loops.nest "r" (i = 3) {
    %0 = loops.reduce add (j = 4) : f32 {
      %f = loops.load %t[i]
      %v = loops.load %y[j]
      %p = arith.mulf %f, %v : f32
      loops.yield %p
    }
    loops.store %0, %r[i]
  }
}

// -----

// A local node that is never read has no memory.
// CHECK-LABEL: loops.func @never_read
// CHECK:         "unread" virtual because "never read"
// CHECK-NOT:     "unread"
loops.func @never_read {
  %unread = assign.node "unread" local because "intermediate value" : memref<f32>
  %a = assign.node "a" on_device : memref<f32>
  loops.nest "unread" () {
    %v = loops.load %a[]
    loops.store %v, %unread[]
  }
}

// -----

// A cell that several points add to is complete at the end of the nest only: nothing is inlined into it.
// CHECK-LABEL: loops.func @cells_written_in_turn
// CHECK:         loops.nest "x reset" (i = 6) {
// CHECK:         loops.nest "x" (k = 3, o = 4) {
// CHECK:           %old = loops.load %x[k + o]
// CHECK:         loops.nest "y" (k = 3, o = 4) {
// CHECK-NEXT:      %v{{.*}} = loops.load %x[k + o]
loops.func @cells_written_in_turn {
  %g = assign.node "g" on_device : memref<4xf32>
  %x = assign.node "x" local because "intermediate value" : memref<6xf32>
  %y = assign.node "y" on_device : memref<3x4xf32>
  loops.nest "x reset" (i = 6) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[i]
  }
  loops.nest "x" (k = 3, o = 4) {
    %v = loops.load %g[o]
    %old = loops.load %x[k + o]
    %new = arith.addf %old, %v : f32
    loops.store %new, %x[k + o]
  }
  loops.nest "y" (k = 3, o = 4) {
    %v = loops.load %x[k + o]
    loops.store %v, %y[k, o]
  }
}

// -----

// Random numbers are costly: they move to one reader, and are kept for two.
// CHECK-LABEL: loops.func @random_numbers
// CHECK:         loops.nest "m" (i = 8) {
// CHECK:           loops.uniform "u#1"
// CHECK:           loops.store %{{.*}}, %m[i]
// CHECK:         loops.nest "y" (i = 8) {
// CHECK-NEXT:      loops.load %m[i]
// CHECK:         loops.nest "z" (i = 8) {
// CHECK-NEXT:      loops.load %m[-i + 7]
loops.func @random_numbers indices (step_n) {
  %u = assign.node "u" local because "intermediate value" : memref<8xf32>
  %m = assign.node "m" local because "intermediate value" : memref<8xf32>
  %y = assign.node "y" on_device : memref<8xf32>
  %z = assign.node "z" on_device : memref<8xf32>
  loops.nest "u" (i = 8) {
    %place = loops.index i : i32
    %n = loops.index step_n : i64
    %v = loops.uniform "u#1" %place at %n : f32
    loops.store %v, %u[i]
  }
  loops.nest "m" (i = 8) {
    %v = loops.load %u[i]
    %w = arith.negf %v : f32
    loops.store %w, %m[i]
  }
  loops.nest "y" (i = 8) {
    %v = loops.load %m[i]
    loops.store %v, %y[i]
  }
  loops.nest "z" (i = 8) {
    %v = loops.load %m[-i + 7]
    loops.store %v, %z[i]
  }
}

// -----

// A sum that a reduction reads over and over is stored, by way of a copy: the next sum loads it, and not its
// operands.
// CHECK-LABEL: loops.func @stored_all_the_same
// CHECK:         "s" local
// CHECK:         "copy" virtual
// CHECK:         loops.nest "y" (i = 8, j = 8) {
// CHECK-NEXT:      loops.reduce
// CHECK-NEXT:        loops.load %s[i, k]
// CHECK:         loops.nest "z" (i = 8, j = 8) {
// CHECK-NEXT:      loops.load %s[i, j]
// CHECK-NEXT:      loops.load %a[j, i]
// CHECK-NEXT:      arith.addf
loops.func @stored_all_the_same {
  %a = assign.node "a" constant : memref<8x8xf32>
  %b = assign.node "b" constant : memref<8x8xf32>
  %s = assign.node "s" local because "intermediate value" : memref<8x8xf32>
  %copy = assign.node "copy" local because "intermediate value" : memref<8x8xf32>
  %y = assign.node "y" on_device : memref<8x8xf32>
  %z = assign.node "z" on_device : memref<8x8xf32>
  loops.nest "s" (i = 8, j = 8) {
    %0 = loops.load %a[i, j]
    %1 = loops.load %b[i, j]
    %2 = arith.addf %0, %1 : f32
    loops.store %2, %s[i, j]
  }
  loops.nest "copy" (i = 8, j = 8) {
    %0 = loops.load %s[i, j]
    loops.store %0, %copy[i, j]
  }
  loops.nest "y" (i = 8, j = 8) {
    %0 = loops.reduce add (k = 8) : f32 {
      %1 = loops.load %copy[i, k]
      %2 = loops.load %b[k, j]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[i, j]
  }
  loops.nest "z" (i = 8, j = 8) {
    %0 = loops.load %s[i, j]
    %1 = loops.load %a[j, i]
    %2 = arith.addf %0, %1 : f32
    loops.store %2, %z[i, j]
  }
}

// -----

// Where a value is read at a position that is found at run time, it is not known which one to compute.
// CHECK-LABEL: loops.func @position_at_run_time
// CHECK:         loops.nest "doubled" (v = 6) {
// CHECK:           loops.store %{{.*}}, %doubled[v]
// CHECK:         loops.nest "y" (b = 4) {
// CHECK:           %[[PLACE:.*]], %{{.*}} = loops.position
// CHECK:           loops.load %doubled[%[[PLACE]]]
loops.func @position_at_run_time {
  %ids = assign.node "ids" constant : memref<4xi32>
  %table = assign.node "table" constant : memref<6xf32>
  %doubled = assign.node "doubled" local because "intermediate value" : memref<6xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  loops.nest "doubled" (v = 6) {
    %x = loops.load %table[v]
    %sum = arith.addf %x, %x : f32
    loops.store %sum, %doubled[v]
  }
  loops.nest "y" (b = 4) {
    %id = loops.load %ids[b]
    %place, %is = loops.position %id below 6
    %x = loops.load %doubled[%place]
    loops.store %x, %y[b]
  }
}

// -----

// A search for a position reads one element of each row: fewer than there are are computed again.
// CHECK-LABEL: loops.func @search
// CHECK-DAG:     "wide" virtual
// CHECK:         loops.nest "y" (b = 4, d = 8) {
// CHECK:           %[[X:.*]] = loops.load %table[v, d]
// CHECK-NEXT:      arith.extf %[[X]] : bf16 to f32
// CHECK:         loops.nest "z" (o = 6) {
// CHECK:           arith.extf
loops.func @search {
  %ids = assign.node "ids" constant : memref<4xi32>
  %table = assign.node "table" constant : memref<6x8xbf16>
  %x = assign.node "x" constant : memref<8xf32>
  %wide = assign.node "wide" local because "intermediate value" : memref<6x8xf32>
  %y = assign.node "y" on_device : memref<4x8xf32>
  %z = assign.node "z" on_device : memref<6xf32>
  loops.nest "wide" (v = 6, d = 8) {
    %0 = loops.load %table[v, d]
    %1 = arith.extf %0 : bf16 to f32
    loops.store %1, %wide[v, d]
  }
  loops.nest "y" (b = 4, d = 8) {
    %sum = loops.reduce add (v = 6) : f32 {
      %0 = loops.load %wide[v, d]
      %id = loops.load %ids[b]
      %index = loops.index v : i32
      %is = arith.cmpi eq, %id, %index : i32
      %hot = arith.uitofp %is : i1 to f32
      %p = arith.mulf %0, %hot : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, d]
  }
  loops.nest "z" (o = 6) {
    %sum = loops.reduce add (k = 8) : f32 {
      %0 = loops.load %wide[o, k]
      %1 = loops.load %x[k]
      %p = arith.mulf %0, %1 : f32
      loops.yield %p
    }
    loops.store %sum, %z[o]
  }
}

// -----

// Steps that few points of a reader share, one number for a vector, are converted before; where many do, there.
// CHECK-LABEL: loops.func @steps
// CHECK-DAG:     "steps" local
// CHECK-DAG:     "ratios" virtual
// CHECK:         loops.nest "steps" (b = 64, k = 8) {
// CHECK:           arith.uitofp
// CHECK:         loops.nest "y" (b = 64, k = 8, l = 16) {
// CHECK-NOT:       arith.uitofp
// CHECK:         loops.nest "z" (b = 64, k = 8, l = 1024) {
// CHECK:           arith.uitofp
loops.func @steps {
  %codes = assign.node "codes" constant : memref<64x8xi8>
  %x = assign.node "x" constant : memref<64x8x16xf32>
  %w = assign.node "w" constant : memref<64x8x1024xf32>
  %steps = assign.node "steps" local because "intermediate value" : memref<64x8xf32>
  %ratios = assign.node "ratios" local because "intermediate value" : memref<64x8xf32>
  %y = assign.node "y" on_device : memref<64x8x16xf32>
  %z = assign.node "z" on_device : memref<64x8x1024xf32>
  loops.nest "steps" (b = 64, k = 8) {
    %0 = loops.load %codes[b, k]
    %1 = arith.uitofp %0 : i8 to f32
    loops.store %1, %steps[b, k]
  }
  loops.nest "y" (b = 64, k = 8, l = 16) {
    %0 = loops.load %steps[b, k]
    %1 = loops.load %x[b, k, l]
    %2 = arith.mulf %0, %1 : f32
    loops.store %2, %y[b, k, l]
  }
  loops.nest "ratios" (b = 64, k = 8) {
    %0 = loops.load %codes[b, k]
    %1 = arith.uitofp %0 : i8 to f32
    loops.store %1, %ratios[b, k]
  }
  loops.nest "z" (b = 64, k = 8, l = 1024) {
    %0 = loops.load %ratios[b, k]
    %1 = loops.load %w[b, k, l]
    %2 = arith.mulf %0, %1 : f32
    loops.store %2, %z[b, k, l]
  }
}

// -----

// Cells search for the points that add to them: each point is found once, and what it adds, if cheap, is computed there.
// CHECK-LABEL: loops.func @scatter
// CHECK-DAG:     "scaled" virtual
// CHECK-DAG:     "grown" local
// CHECK:         loops.nest "grown"
// CHECK-NOT:     loops.nest "scaled"
// CHECK:         loops.nest "cells" (v = 10, o = 8) {
// CHECK:           loops.reduce add (b = 40) : f32 {
// CHECK:             loops.load %x[b, o]
// CHECK:             loops.load %grown[b, o]
loops.func @scatter {
  %ids = assign.node "ids" on_device : memref<40xi32>
  %x = assign.node "x" on_device : memref<40x8xf32>
  %w = assign.node "w" on_device : memref<40xf32>
  %scaled = assign.node "scaled" local : memref<40x8xf32>
  %grown = assign.node "grown" local : memref<40x8xf32>
  %cells = assign.node "cells" on_device : memref<10x8xf32>
  loops.nest "scaled" (b = 40, o = 8) {
    %0 = loops.load %x[b, o]
    %1 = loops.load %w[b]
    %2 = arith.mulf %0, %1 : f32
    loops.store %2, %scaled[b, o]
  }
  loops.nest "grown" (b = 40, o = 8) {
    %0 = loops.load %x[b, o]
    %1 = math.exp %0 : f32
    loops.store %1, %grown[b, o]
  }
  loops.nest "cells" (v = 10, o = 8) {
    %0 = loops.reduce add (b = 40) : f32 {
      %1 = loops.load %ids[b]
      %2 = loops.index v : i32
      %3 = arith.cmpi eq, %1, %2 : i32
      %4 = loops.load %scaled[b, o]
      %5 = loops.load %grown[b, o]
      %6 = arith.addf %4, %5 : f32
      %7 = arith.constant 0.0 : f32
      %8 = arith.select %3, %6, %7 : f32
      loops.yield %8
    }
    loops.store %0, %cells[v, o]
  }
}

// -----

// A nest with a schedule stays as it is: reads in the other direction do not move by equal steps along `o*i`.
// CHECK-LABEL: loops.func @scheduled
// CHECK:         loops.nest "y" (o = 8, i = 4) schedule <merged = (o*i), order = (o*i), lanes = o*i : 16> {
// CHECK-NEXT:      %v{{.*}} = loops.load %t[o, i]
loops.func @scheduled {
  %x = assign.node "x" constant because "data" : memref<8x4xf32>
  %t = assign.node "t" local because "intermediate value" : memref<8x4xf32>
  %y = assign.node "y" on_device because "node" : memref<8x4xf32>
  loops.nest "t" (o = 8, i = 4) {
    %v = loops.load %x[-o + 7, i]
    loops.store %v, %t[o, i]
  }
  loops.nest "y" (o = 8, i = 4) schedule <merged = (o*i), order = (o*i), lanes = o*i : 16> {
    %v = loops.load %t[o, i]
    loops.store %v, %y[o, i]
  }
}
