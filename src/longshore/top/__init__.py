"""What `longshore top` shows. The figures are made here, of any queue; `screens` shows them in a terminal."""
