// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// CHECK-LABEL: texpr.routine @closed {
// CHECK-NEXT:    %0 = texpr.param "scalar" : !texpr.tensor<>
// CHECK-NEXT:    %1 = texpr.param "number" : !texpr.tensor<f64>
// CHECK-NEXT:    %2 = texpr.param "vector" : !texpr.tensor<16, f32>
// CHECK-NEXT:    %3 = texpr.param "matrix" : !texpr.tensor<2 -> 16, f32>
// CHECK-NEXT:    %4 = texpr.param "batched" : !texpr.tensor<10, 4 | 2, 3 -> 16, f32>
// CHECK-NEXT:    %5 = texpr.param "batch only" : !texpr.tensor<10 | f32>
// CHECK-NEXT:    %6 = texpr.param "input only" : !texpr.tensor<2 -> f32>
// CHECK-NEXT:    %7 = texpr.param "empty axis" : !texpr.tensor<0, i8>
// CHECK-NEXT:    %8 = texpr.param "large" : !texpr.tensor<9223372036854775807, bf16>
// CHECK-NEXT:  }
texpr.routine @closed {
  %0 = texpr.param "scalar" : !texpr.tensor<>
  %1 = texpr.param "number" : !texpr.tensor<f64>
  %2 = texpr.param "vector" : !texpr.tensor<16, f32>
  %3 = texpr.param "matrix" : !texpr.tensor<2 -> 16, f32>
  %4 = texpr.param "batched" : !texpr.tensor<10, 4 | 2, 3 -> 16, f32>
  %5 = texpr.param "batch only" : !texpr.tensor<10 | f32>
  %6 = texpr.param "input only" : !texpr.tensor<2 -> f32>
  %7 = texpr.param "empty axis" : !texpr.tensor<0, i8>
  %8 = texpr.param "large" : !texpr.tensor<9223372036854775807, bf16>
}

// CHECK-LABEL: texpr.routine @open {
// CHECK-NEXT:    %0 = texpr.param "rows" : !texpr.tensor<...b0 | ...i1 -> ...o2>
// CHECK-NEXT:    %1 = texpr.param "around a row" : !texpr.tensor<10, ...b0, 4 | ...o2, f32>
// CHECK-NEXT:    %2 = texpr.param "dims" : !texpr.tensor<?d0 | ?d1, ?d0 -> ...o2, ?d2>
// CHECK-NEXT:    %3 = texpr.param "one row" : !texpr.tensor<...b1 | ...i1 -> ...o1>
// CHECK-NEXT:  }
texpr.routine @open {
  %0 = texpr.param "rows" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %1 = texpr.param "around a row" : !texpr.tensor<10, ...b0, 4 | ...o2, f32>
  %2 = texpr.param "dims" : !texpr.tensor<?d0 | ?d1, ?d0 -> ...o2, ?d2>
  %3 = texpr.param "one row" : !texpr.tensor<...b1 | ...i1 -> ...o1>
}

// A basis is part of a size; `...` alone is where a closed row broadcasts.
// CHECK-LABEL: texpr.routine @units_and_splits {
// CHECK-NEXT:    %0 = texpr.param "rgb" : !texpr.tensor<3:rgb, 4, f32>
// CHECK-NEXT:    %1 = texpr.param "one:unit" : !texpr.tensor<1:unit>
// CHECK-NEXT:    %2 = texpr.param "leading" : !texpr.tensor<10, ..., f32>
// CHECK-NEXT:    %3 = texpr.param "split" : !texpr.tensor<10, ... | 2, ..., 3 -> 4, ..., 5:x, 6, f32>
// CHECK-NEXT:  }
texpr.routine @units_and_splits {
  %0 = texpr.param "rgb" : !texpr.tensor<3:rgb, 4, f32>
  %1 = texpr.param "one:unit" : !texpr.tensor<1:unit>
  %2 = texpr.param "leading" : !texpr.tensor<10, ..., f32>
  %3 = texpr.param "split" : !texpr.tensor<10, ... | 2, ..., 3 -> 4, ..., 5:x, 6, f32>
}
